"""Namespaces that come under a cap by their labels."""

from typing import Any

import pytest

from tallygate.admission.request import Phase, ReviewError
from tests.accounting.claims import claim_object, exactly, result
from tests.gate.claim_replica import ClaimReplica
from tests.gate.gate_fixture import CAP, GateFixture, response
from tests.gate.replica_fixture import ReplicaFixture
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice, slice_page

BY_LABEL = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")
CLAIMS = BY_LABEL.replace("gpu: 4", "gpu: 2")
DEVICES = BY_LABEL.replace("{nvidia.com/gpu: 4}", "{large: 2}\n  devices: {large: {selector: 'true'}}")
SHARED = BY_LABEL.replace("hard:", "shared: true\n  hard:")


def create_replica(text: str, **pods: int) -> ReplicaFixture:
    """Return a replica with namespace a under the cap and b outside it, each with the given GPUs."""
    replica = ReplicaFixture(text, namespaces=())
    replica.label_namespace("a", gpu="yes")
    replica.label_namespace("b")
    for namespace, gpus in pods.items():
        replica.store_pod(f"u-{namespace}", gpus, namespace)
        replica.observe(f"u-{namespace}")
    replica.activate_ledgers()
    return replica


def list_warnings(
    fixture: GateFixture, new: dict[str, str], old: dict[str, str] | None = None, **request: Any
) -> list[str]:
    """Return the warnings for a change of the labels of namespace b, which must be allowed."""
    objects = [{"kind": "Namespace", "metadata": {"name": "b", "labels": labels}} for labels in (new, old or {})]
    fields = {"kind": {"group": "", "kind": "Namespace"}, "name": "b", "namespace": "b", "oldObject": objects[1]}
    result = response(fixture.admit(objects[0], **fields | request))
    assert result["allowed"]
    warnings: list[str] = result.get("warnings", [])
    return warnings


def test_a_move_that_exceeds_a_shared_cap_warns_with_the_sum() -> None:
    (warning,) = list_warnings(create_replica(SHARED, a=3, b=2), {"gpu": "yes"})
    assert warning == (
        'Namespace "b": metadata.labels: its pods use 2 nvidia.com/gpu, and cap gpus shared by its namespaces is '
        "exceeded with them: charged 5, hard 4. They stay, and no further pod is accepted until enough pods end "
        "(TG207, cap gpus)"
    )


@pytest.mark.parametrize(
    ("text", "used", "end"),
    [
        (
            CLAIMS,
            "its pods and claims use 3 nvidia.com/gpu",
            "no further pod or claim is accepted until enough pods end or claims are deleted",
        ),
        (
            DEVICES,
            "its claims use 3 large",
            "no further device is allocated until enough devices of claims are free",
        ),
    ],
    ids=["claims by their requests", "allocated devices"],
)
def test_a_move_of_claims_names_them(text: str, used: str, end: str) -> None:
    replica = ClaimReplica(text)
    replica.label_namespace("b")
    replica.devices.apply(slice_page(replica.revision, create_slice(5, *(create_device(f"d{i}") for i in range(3)))))
    devices = [result(driver=DRIVER, pool=POOL, device=f"d{i}") for i in range(3)]
    claim = claim_object(exactly(3), results=devices, namespace="b", resourceVersion=str(replica.next_revision()))
    replica.observe_claim(claim)
    replica.reconcile()
    (warning,) = list_warnings(replica, {"gpu": "yes"})
    arithmetic = "and cap gpus of this namespace is exceeded with them: charged 3, hard 2"
    assert warning == f'Namespace "b": metadata.labels: {used}, {arithmetic}. They stay, and {end} (TG207, cap gpus)'


def test_a_move_counts_reservations_too() -> None:
    replica = create_replica(SHARED, b=2)
    assert replica.request_pod("u1", 3, "a") == 200
    assert len(list_warnings(replica, {"gpu": "yes"})) == 1


def test_the_pods_of_a_namespace_that_returns_to_its_own_cap_are_counted_once() -> None:
    replica = create_replica(BY_LABEL, b=3)
    replica.label_namespace("b", gpu="yes")
    replica.activate_ledgers()
    assert replica.count_gpus("b") == (3, 0)
    replica.label_namespace("b")
    assert list_warnings(replica, {"gpu": "yes"}) == []


def test_an_unshared_cap_is_exceeded_only_by_the_pods_of_its_namespace() -> None:
    assert list_warnings(create_replica(BY_LABEL, a=4, b=4), {"gpu": "yes"}) == []
    (warning,) = list_warnings(create_replica(BY_LABEL, a=4, b=5), {"gpu": "yes"})
    assert "cap gpus of this namespace is exceeded with them: charged 5, hard 4" in warning


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"gpu": "yes", "more": "1"}, {"gpu": "yes"}),  # it was under the cap before
        ({}, {"gpu": "yes"}),  # it leaves
        ({"other": "1"}, {}),  # it has nothing to do with the cap
    ],
)
def test_only_a_namespace_that_comes_under_a_cap_is_warned(new: dict[str, str], old: dict[str, str]) -> None:
    assert list_warnings(create_replica(SHARED, a=3, b=2), new, old) == []


def test_a_namespace_whose_pods_fit_gets_no_warning() -> None:
    assert list_warnings(create_replica(SHARED, a=2, b=2), {"gpu": "yes"}) == []
    assert list_warnings(create_replica(SHARED, a=9), {"gpu": "yes"}) == []


def test_a_gate_without_a_watch_of_pods_does_not_warn() -> None:
    assert list_warnings(GateFixture(SHARED), {"gpu": "yes"}) == []


def test_the_mutating_phase_does_not_warn() -> None:
    assert list_warnings(create_replica(SHARED, a=3, b=2), {"gpu": "yes"}, phase=Phase.MUTATING) == []


def test_an_invalid_namespace_is_a_review_error() -> None:
    with pytest.raises(ReviewError, match="the object is not a Namespace"):
        list_warnings(create_replica(SHARED, a=3, b=2), {"gpu": 1})  # type: ignore[dict-item]
