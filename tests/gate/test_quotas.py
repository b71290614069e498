"""Warnings about ResourceQuotas that will reject pods of a workload, at its admission."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tallygate.webhook.admission.request import Phase
from tallygate.webhook.kube.resource_codec import Replaced
from tallygate.webhook.objects.core import ResourceQuota
from tallygate.webhook.state.informers.namespaced_stores import QUOTA_CODEC, QuotaStore
from tests.gate.gate_fixture import CAP, GPU, GateFixture
from tests.gate.test_workload_forecast import get_rejection, list_warnings, rolling, workload

NO_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""
GPUS = f"requests.{GPU}"
QUOTA = "quota q of this namespace has hard"


def quota(hard: Mapping[str, str], used: Mapping[str, str], name: str = "q", **spec: Any) -> dict[str, Any]:
    """Return a quota with status as the API server sends it."""
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": "5"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def quotas(*items: dict[str, Any]) -> QuotaStore:
    """Return a store with the given quotas."""
    store = QuotaStore()
    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()
    store.apply(Replaced(QUOTA_CODEC.decode_page(body).items, 7))
    return store


def create_fixture(*items: dict[str, Any], text: str = NO_CAPS) -> GateFixture:
    """Return a gate with the given quotas."""
    return GateFixture(text, quotas=quotas(*items))


def gpus(hard: int, used: int, **spec: Any) -> dict[str, Any]:
    """Return a quota of GPUs."""
    return quota({GPUS: str(hard)}, {GPUS: str(used)}, **spec)


def test_a_workload_that_fits_into_the_free_quota_gets_no_warning() -> None:
    assert list_warnings(create_fixture(gpus(8, 2)), workload(2, replicas=3)) == []


def test_a_workload_larger_than_a_quota_is_warned_with_the_sum_without_a_cap() -> None:
    assert list_warnings(create_fixture(gpus(4, 0)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 4: 2 of them can run at a time (TG208)"
    ]
    assert list_warnings(create_fixture(gpus(1, 0)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 1: none of them can ever run (TG208)"
    ]


def test_a_workload_over_the_free_quota_is_warned_how_many_pods_wait() -> None:
    assert list_warnings(create_fixture(gpus(8, 5)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 8, free 3: 2 wait until other pods end (TG208)"
    ]


def test_a_change_is_warned_only_about_its_growth() -> None:
    full = create_fixture(gpus(8, 8))
    old = workload(2, replicas=3)
    assert list_warnings(full, workload(2, replicas=2), oldObject=old) == []
    assert list_warnings(full, workload(2, replicas=3, paused=True), oldObject=old) == []
    (warning,) = list_warnings(full, workload(2, replicas=4), oldObject=old)
    assert warning == f"4 replicas request 8 {GPUS}, {QUOTA} 8, free 0: 1 waits until other pods end (TG208)"


def test_a_rollout_is_warned_about_the_pods_that_it_starts_first() -> None:
    new, old = (workload(2, image=image, replicas=2, strategy=rolling(1, 0)) for image in "ba")
    assert list_warnings(create_fixture(gpus(8, 6)), new, oldObject=old) == []
    (waits,) = list_warnings(create_fixture(gpus(8, 7)), new, oldObject=old)
    (never,) = list_warnings(create_fixture(gpus(4, 4)), new, oldObject=old)
    ask = f"with 1 more during a rollout, 3 replicas request 6 {GPUS}, {QUOTA}"
    assert waits == f"{ask} 8, free 1: no new pod starts until others end (TG208)"
    assert never == (f"{ask} 4: the rollout can never proceed, since maxUnavailable lets no old pod end first (TG208)")


def test_cpu_memory_and_pods_are_counted_as_a_quota_counts_them() -> None:
    hard = {"cpu": "1", "requests.memory": "1Gi", "limits.cpu": "4", "pods": "3", "count/pods": "9"}
    body = workload(0, replicas=4)
    resources = {"requests": {"cpu": "300m", "memory": "512Mi"}, "limits": {"cpu": "1"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    assert list_warnings(create_fixture(quota(hard, dict.fromkeys(hard, "0"))), body) == [
        f"4 replicas request 1200m cpu, {QUOTA} 1: 3 of them can run at a time (TG208)",
        f"4 replicas request 4 pods, {QUOTA} 3: 3 of them can run at a time (TG208)",
        f"4 replicas request 2Gi requests.memory, {QUOTA} 1Gi: 2 of them can run at a time (TG208)",
    ]


def test_warnings_of_quotas_are_sorted_by_name() -> None:
    warnings = list_warnings(create_fixture(gpus(2, 0, name="b"), gpus(1, 0, name="a")), workload(1, replicas=3))
    assert [warning.split()[5:7] for warning in warnings] == [["quota", "a"], ["quota", "b"]]


@pytest.mark.parametrize(
    ("scopes", "pod", "warns"),
    [
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        ({"scopes": ["BestEffort"]}, {}, False),  # a LimitRange can change it
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {}, False),  # admission can set a class
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
    ],
)
def test_scopes_select_pods_and_an_unsure_selection_does_not_warn(
    scopes: dict[str, Any],
    pod: dict[str, Any],
    warns: bool,  # noqa: FBT001  # a table
) -> None:
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"] |= pod
    assert bool(list_warnings(create_fixture(gpus(2, 0, **scopes)), body)) is warns


@pytest.mark.parametrize(
    ("operator", "values", "name", "warns"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("In", ["high"], None, False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], None, False),  # the default class of pods can be this one
        ("DoesNotExist", None, None, False),
    ],
)
def test_a_scope_selector_uses_the_class_of_the_template(
    operator: str,
    values: Sequence[str] | None,
    name: str | None,
    warns: bool,  # noqa: FBT001  # a table
) -> None:
    match = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"]["priorityClassName"] = name
    assert bool(list_warnings(create_fixture(gpus(2, 0, scopeSelector={"matchExpressions": [match]})), body)) is warns


def test_a_quota_that_is_not_computed_yet_does_not_warn() -> None:
    new = gpus(2, 0)
    del new["status"]
    assert list_warnings(create_fixture(new), workload(1, replicas=3)) == []
    added = gpus(2, 0)
    added["spec"]["hard"] = {GPUS: "2", "pods": "1"}
    (warning,) = list_warnings(create_fixture(added), workload(1, replicas=3))
    assert GPUS in warning


def test_a_quota_that_was_just_changed_limits_by_its_new_spec() -> None:
    lowered = gpus(8, 0)
    lowered["spec"]["hard"] = {GPUS: "2"}
    assert len(list_warnings(create_fixture(lowered), workload(1, replicas=3))) == 1


def test_an_invalid_quota_does_not_hide_the_warnings_of_others() -> None:
    broken = gpus(2, 0, name="a")
    broken["spec"]["hard"] = {GPUS: "two"}
    assert len(list_warnings(create_fixture(broken, gpus(2, 0)), workload(1, replicas=3))) == 1


def test_quotas_of_other_namespaces_and_other_resources_do_not_warn() -> None:
    assert list_warnings(create_fixture(gpus(1, 0)), workload(1, replicas=3), namespace="team-b") == []
    assert (
        list_warnings(
            create_fixture(quota({"count/deployments.apps": "0"}, {"count/deployments.apps": "0"})), workload(1)
        )
        == []
    )


class UnknownQuotas:
    """A lister whose quotas are unknown at present."""

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """Return None for team-a: its quotas are unknown."""
        return None if namespace == "team-a" else ()


def test_unknown_quotas_do_not_warn_and_caps_still_do() -> None:
    assert list_warnings(GateFixture(NO_CAPS, quotas=UnknownQuotas()), workload(1, replicas=99)) == []
    assert len(list_warnings(GateFixture(CAP, quotas=UnknownQuotas()), workload(1, replicas=99))) == 1


def test_caps_and_quotas_both_warn_and_a_cap_that_denies_answers_alone() -> None:
    warnings = list_warnings(create_fixture(gpus(2, 0), text=CAP), workload(2, replicas=3))
    assert [warning.rsplit("(", 1)[1] for warning in warnings] == ["TG204, cap gpus)", "TG208)"]
    denied = get_rejection(create_fixture(gpus(2, 0), text=CAP + "  workloads: deny\n"), workload(2, replicas=3))
    assert "TG208" not in denied["message"]


def test_an_owned_workload_and_the_mutating_phase_get_no_warning() -> None:
    owned = workload(1, "ReplicaSet", replicas=3)
    owned["metadata"] = {"ownerReferences": [{"controller": True, "kind": "Deployment", "name": "d"}]}
    assert list_warnings(create_fixture(gpus(2, 0)), owned) == []
    assert list_warnings(create_fixture(gpus(2, 0)), workload(1, replicas=3), phase=Phase.MUTATING) == []
