"""`tallygate usage --verify`: ledgers of the gate's transitions have no drift, and any others have."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.answers.usage_report import LedgerChoice
from tallygate.cli.usage.verify import Drift, find_drift
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.cli.usage.clusters import GPU, Object, load_snapshot, namespace, pod

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [team-a]}, hard: {nvidia.com/gpu: 100}}
"""
INDEX_POLICIES = parse_policies(CAP)
INDEX = CapIndex(INDEX_POLICIES, None)
(ACTIVE_CAP,) = INDEX.list_caps()
KEY = LedgerKey(ACTIVE_CAP.key, "team-a")
PODS_REVISION = 100
COUNTED_AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LONG_BEFORE, JUST_BEFORE = "2026-11-21T09:00:00Z", "2026-11-21T09:29:59Z"


def create_gpu_pod(count: int, name: str, revision: int, created_at: str = JUST_BEFORE, **more: str) -> Object:
    """Return a pod with GPUs whose last change has this revision."""
    meta = {"resourceVersion": f"{revision}", "creationTimestamp": created_at}
    return pod(name, {GPU: f"{count}"}, meta=meta, status=more)


def list_drifts(
    folder: Path, ledger: Ledger, pods: list[Object], now: float | None = None, index: CapIndex = INDEX
) -> list[Drift]:
    """Return the drifts of a snapshot that was read at `now`."""
    stored = json.loads(encode_ledger(KEY, ledger, "tallygate-system", None, COUNTED_AT).body)
    stored["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    cluster = load_snapshot(folder, [namespace("team-a"), stored, *pods], 200)
    assert not cluster.ledgers.problems
    cluster.read_at = now
    return [each for chosen in LedgerChoice().list_ledgers(cluster, index) for each in find_drift(cluster, chosen)]


def create_ledger(used: int) -> Ledger:
    """Return a ledger with this used amount."""
    return Ledger(
        ACTIVE_CAP.hard,
        used=Amounts({GPU: used}),
        resources=ACTIVE_CAP.resources,
        pods_revision=PODS_REVISION,
        namespaces_revision=3,
    )


def create_reservation(operation: Operation, requested: int, counted: int = 0, name: str = "p") -> Reservation:
    """Return a reservation."""
    return Reservation(
        "team-a",
        name,
        Amounts({GPU: counted} if counted else {}),
        Amounts({GPU: requested}),
        "n",
        single_attempt=True,
        operation=operation,
    )


OLD = st.lists(st.integers(0, 5), max_size=5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=OLD, new=OLD, finished=st.integers(0, 3), difference=st.integers(-3, 3))
def test_the_used_amount_is_compared_and_later_pods_are_no_drift(
    tmp_path: Path, old: list[int], new: list[int], finished: int, difference: int
) -> None:
    """Require that the used amount includes unchanged pods; it may include later ones."""
    pods = [create_gpu_pod(count, f"old{number}", 90) for number, count in enumerate(old)]
    pods += [create_gpu_pod(count, f"new{number}", 150) for number, count in enumerate(new)]
    pods += [create_gpu_pod(5, f"ended{number}", 90, phase="Failed") for number in range(finished)]
    used = max(0, sum(old) + difference)
    found = list_drifts(tmp_path, create_ledger(used), pods)
    is_right = sum(old) <= used <= sum(old) + sum(new)
    assert bool(found) is not is_right
    if found:
        assert [(each.ledger, each.consumer) for each in found] == [(used, "")]


def test_an_old_pod_is_counted_in_spite_of_later_changes(tmp_path: Path) -> None:
    """Ignore the later status changes of a kubelet, for which no ledger is recounted."""
    pods = [create_gpu_pod(3, "p", 150, LONG_BEFORE)]
    assert list_drifts(tmp_path, create_ledger(3), pods) == []
    (found,) = list_drifts(tmp_path, create_ledger(2), pods)
    assert (found.ledger, found.stored) == (2, 3)


def test_the_newest_pod_of_a_count_is_counted_for_sure(tmp_path: Path) -> None:
    (found,) = list_drifts(tmp_path, create_ledger(0), [create_gpu_pod(3, "p", PODS_REVISION)])
    assert (found.ledger, found.stored) == (0, 3)


@pytest.mark.parametrize(("seconds", "is_drift"), [(30, False), (120, True)])
def test_a_new_pod_must_be_counted_within_a_minute(tmp_path: Path, seconds: float, is_drift: bool) -> None:  # noqa: FBT001 -- a table
    """Report a pod that is not counted later, if the time of the snapshot is known."""
    pods = [create_gpu_pod(3, "p", 150)]
    assert list_drifts(tmp_path, create_ledger(0), pods) == []
    assert bool(list_drifts(tmp_path, create_ledger(0), pods, COUNTED_AT.timestamp() + seconds)) is is_drift
    assert list_drifts(tmp_path, create_ledger(3), pods, COUNTED_AT.timestamp() + seconds) == []


def test_a_pod_that_finished_later_may_be_counted(tmp_path: Path) -> None:
    pods = [create_gpu_pod(3, "p", 150, LONG_BEFORE, phase="Succeeded")]
    assert list_drifts(tmp_path, create_ledger(3), pods) == []
    assert list_drifts(tmp_path, create_ledger(0), pods) == []
    assert list_drifts(tmp_path, create_ledger(4), pods) != []


def test_reservations_in_flight_are_no_drift(tmp_path: Path) -> None:
    """Accept reservations whose pods are missing or have changed later."""
    ledger = (
        create_ledger(0)
        .with_reservation("absent", create_reservation(Operation.CREATE, 2))
        .with_reservation("uid-team-a-p", create_reservation(Operation.CREATE, 1))
    )
    assert list_drifts(tmp_path, ledger, [create_gpu_pod(1, "p", 150)]) == []


def test_a_creation_that_is_counted_and_reserved_is_charged_twice(tmp_path: Path) -> None:
    """Report a reservation that should have been removed with the recount."""
    ledger = create_ledger(1).with_reservation("uid-team-a-p", create_reservation(Operation.CREATE, 1))
    (found,) = list_drifts(tmp_path, ledger, [create_gpu_pod(1, "p", 90)])
    assert (found.consumer, found.name) == ("team-a/p", GPU)


def test_a_change_is_based_on_the_amount_of_its_pod(tmp_path: Path) -> None:
    """Accept it as in flight, and report any other base, since it reserves a wrong amount."""
    pods = [create_gpu_pod(2, "p", 90)]
    assert (
        list_drifts(
            tmp_path,
            create_ledger(2).with_reservation("uid-team-a-p", create_reservation(Operation.UPDATE, 4, 2)),
            pods,
        )
        == []
    )
    (found,) = list_drifts(
        tmp_path, create_ledger(2).with_reservation("uid-team-a-p", create_reservation(Operation.UPDATE, 4, 1)), pods
    )
    assert (found.ledger, found.stored, found.consumer) == (1, 2, "team-a/p")


def test_a_ledger_that_is_not_counted_yet_has_no_drift(tmp_path: Path) -> None:
    """Ignore an initializing ledger too."""
    pods = [create_gpu_pod(2, "p", 90)]
    assert list_drifts(tmp_path, Ledger(ACTIVE_CAP.hard), pods) == []
    assert list_drifts(tmp_path, replace(create_ledger(0), initializer="n"), pods) == []


CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com", "uid": "class", "resourceVersion": "4"},
    "spec": {"extendedResourceName": GPU},
}
DEVICE_INDEX = CapIndex(INDEX_POLICIES, None, CapSources({"gpu.example.com": GPU}))
(DEVICE_CAP,) = DEVICE_INDEX.list_caps()
CLAIMS_REVISION = 100


def create_claim(count: int, revision: int, allocated: int = 0, owner: str = "") -> Object:
    """Return a claim; kube-scheduler seems to have made it for the pod `owner`."""
    metadata: Object = {"name": "c", "namespace": "team-a", "uid": "claim", "resourceVersion": f"{revision}"}
    status: Object = {}
    if owner:
        uid = f"uid-team-a-{owner}"
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": uid, "controller": True}]
        status["reservedFor"] = [{"resource": "pods", "name": owner, "uid": uid}]
    if allocated:
        status["allocation"] = {"devices": {"results": [{"request": "r"}] * allocated}}
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    requests = [{"name": "r", "exactly": exactly}]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status}
    return {**body, "spec": {"devices": {"requests": requests}}}


def create_device_ledger(used: int) -> Ledger:
    """Return a ledger that has counted claims too."""
    return replace(create_ledger(used), resources=DEVICE_CAP.counted, claims_revision=CLAIMS_REVISION)


def list_amounts(folder: Path, used: int, objects: list[Object]) -> list[tuple[int, int]]:
    """Return the amounts of the ledger and of the cluster that differ."""
    found = list_drifts(folder, create_device_ledger(used), [CLASS, *objects], index=DEVICE_INDEX)
    return [(each.ledger, each.stored) for each in found]


def test_claims_are_summed_with_the_pods(tmp_path: Path) -> None:
    objects = [create_gpu_pod(2, "p", 90), create_claim(3, 90)]
    assert list_amounts(tmp_path, 5, objects) == []
    assert list_amounts(tmp_path, 4, objects) == [(4, 5)]
    assert list_amounts(tmp_path, 6, objects) == [(6, 5)]


def test_a_claim_that_changed_later_may_be_counted_with_all_that_it_may_get(tmp_path: Path) -> None:
    """Expect the most that it may get, which it counts until its allocation."""
    for used, drifts in ((0, []), (3, []), (4, [(4, 3)])):
        assert list_amounts(tmp_path, used, [create_claim(3, 150, allocated=1)]) == drifts


def test_the_claim_of_a_pod_is_counted_once(tmp_path: Path) -> None:
    """Recognise it by the status of both."""
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}
    counted = pod("p", {GPU: "2"}, meta={"resourceVersion": "90"}, status=status)
    objects = [counted, create_claim(2, 80, allocated=2, owner="p")]
    assert list_amounts(tmp_path, 2, objects) == []
    assert list_amounts(tmp_path, 4, objects) == [(4, 2)]
    changed = pod("p", {GPU: "2"}, meta={"resourceVersion": "150"}, status=status)
    for used in (2, 4):
        assert list_amounts(tmp_path, used, [changed, create_claim(2, 80, allocated=2, owner="p")]) == []


def test_a_reservation_of_a_counted_claim_is_charged_twice(tmp_path: Path) -> None:
    reservation = replace(create_reservation(Operation.CREATE, 3, name="c"), kind=ConsumerKind.CLAIM)
    ledger = create_device_ledger(3).with_reservation("claim", reservation)
    (found,) = list_drifts(tmp_path, ledger, [CLASS, create_claim(3, 90)], index=DEVICE_INDEX)
    assert found.kind is ConsumerKind.CLAIM
    assert "the claim is charged twice" in found.reason


def test_a_ledger_that_counts_other_classes_is_not_compared(tmp_path: Path) -> None:
    """Skip its amounts, which are those of other claims."""
    ledger = create_device_ledger(5)
    assert list_drifts(tmp_path, ledger, [create_gpu_pod(2, "p", 90)]) == []
