"""What ResourceQuota will say to a workload's pods, told when the workload is applied."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.gate.scene import CAP, GPU, Scene
from tests.gate.test_workload_forecast import refusal, rolling, told, workload
from webhook.admission.request import Phase
from webhook.kube.resource_codec import Replaced
from webhook.objects.core import ResourceQuota
from webhook.state.informers.named_stores import QUOTA_CODEC, QuotaStore

NO_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""
GPUS = f"requests.{GPU}"
QUOTA = "quota q of this namespace has hard"


def quota(hard: Mapping[str, str], used: Mapping[str, str], name: str = "q", **spec: Any) -> dict[str, Any]:
    """A quota as the API server sends it, computed."""
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": "5"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def quotas(*items: dict[str, Any]) -> QuotaStore:
    """They are followed."""
    view = QuotaStore()
    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()
    view.apply(Replaced(QUOTA_CODEC.decode_page(body).items, 7))
    return view


def scene(*items: dict[str, Any], text: str = NO_CAPS) -> Scene:
    """A gate that follows these quotas."""
    return Scene(text, quotas=quotas(*items))


def gpus(hard: int, used: int, **spec: Any) -> dict[str, Any]:
    """A quota of GPUs."""
    return quota({GPUS: str(hard)}, {GPUS: str(used)}, **spec)


def test_a_workload_that_fits_beside_what_is_used_hears_nothing() -> None:
    assert told(scene(gpus(8, 2)), workload(2, replicas=3)) == []


def test_a_workload_larger_than_a_quota_is_told_the_sum_though_there_is_no_cap() -> None:
    assert told(scene(gpus(4, 0)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 4: 2 of them can run at a time (TG208)"
    ]
    assert told(scene(gpus(1, 0)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 1: none of them can ever run (TG208)"
    ]


def test_a_workload_with_no_room_beside_what_is_used_is_told_how_many_wait() -> None:
    assert told(scene(gpus(8, 5)), workload(2, replicas=3)) == [
        f"3 replicas request 6 {GPUS}, {QUOTA} 8, free 3: 2 wait until other pods end (TG208)"
    ]


def test_a_change_is_told_of_what_it_adds_only() -> None:
    full = scene(gpus(8, 8))
    old = workload(2, replicas=3)
    assert told(full, workload(2, replicas=2), oldObject=old) == []
    assert told(full, workload(2, replicas=3, paused=True), oldObject=old) == []
    (warning,) = told(full, workload(2, replicas=4), oldObject=old)
    assert warning == f"4 replicas request 8 {GPUS}, {QUOTA} 8, free 0: 1 waits until other pods end (TG208)"


def test_a_rollout_is_told_of_the_pods_that_it_starts_first() -> None:
    new, old = (workload(2, image=image, replicas=2, strategy=rolling(1, 0)) for image in "ba")
    assert told(scene(gpus(8, 6)), new, oldObject=old) == []
    (waits,) = told(scene(gpus(8, 7)), new, oldObject=old)
    (never,) = told(scene(gpus(4, 4)), new, oldObject=old)
    ask = f"with 1 more during a rollout, 3 replicas request 6 {GPUS}, {QUOTA}"
    assert waits == f"{ask} 8, free 1: no new pod starts until others end (TG208)"
    assert never == (f"{ask} 4: the rollout can never proceed, since maxUnavailable lets no old pod end first (TG208)")


def test_cpu_memory_and_pods_are_counted_as_a_quota_counts_them() -> None:
    hard = {"cpu": "1", "requests.memory": "1Gi", "limits.cpu": "4", "pods": "3", "count/pods": "9"}
    body = workload(0, replicas=4)
    resources = {"requests": {"cpu": "300m", "memory": "512Mi"}, "limits": {"cpu": "1"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    assert told(scene(quota(hard, dict.fromkeys(hard, "0"))), body) == [
        f"4 replicas request 1200m cpu, {QUOTA} 1: 3 of them can run at a time (TG208)",
        f"4 replicas request 4 pods, {QUOTA} 3: 3 of them can run at a time (TG208)",
        f"4 replicas request 2Gi requests.memory, {QUOTA} 1Gi: 2 of them can run at a time (TG208)",
    ]


def test_every_quota_is_told_in_the_order_of_their_names() -> None:
    warnings = told(scene(gpus(2, 0, name="b"), gpus(1, 0, name="a")), workload(1, replicas=3))
    assert [warning.split()[5:7] for warning in warnings] == [["quota", "a"], ["quota", "b"]]


@pytest.mark.parametrize(
    ("scopes", "pod", "heard"),
    [
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        ({"scopes": ["BestEffort"]}, {}, False),  # a LimitRange may yet make it another
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {}, False),  # a class may yet be given to it
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
    ],
)
def test_scopes_select_as_they_do_for_pods_and_nothing_is_said_where_that_is_not_sure(
    scopes: dict[str, Any],
    pod: dict[str, Any],
    heard: bool,  # noqa: FBT001  # a table
) -> None:
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"] |= pod
    assert bool(told(scene(gpus(2, 0, **scopes)), body)) is heard


@pytest.mark.parametrize(
    ("operator", "values", "name", "heard"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("In", ["high"], None, False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], None, False),  # the class that pods have by default may be this one
        ("DoesNotExist", None, None, False),
    ],
)
def test_a_scope_selector_goes_by_the_class_that_the_template_names(
    operator: str,
    values: Sequence[str] | None,
    name: str | None,
    heard: bool,  # noqa: FBT001  # a table
) -> None:
    match = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"]["priorityClassName"] = name
    assert bool(told(scene(gpus(2, 0, scopeSelector={"matchExpressions": [match]})), body)) is heard


def test_what_is_not_computed_yet_is_not_told() -> None:
    new = gpus(2, 0)
    del new["status"]
    assert told(scene(new), workload(1, replicas=3)) == []
    added = gpus(2, 0)
    added["spec"]["hard"] = {GPUS: "2", "pods": "1"}
    (warning,) = told(scene(added), workload(1, replicas=3))
    assert GPUS in warning


def test_a_quota_that_was_just_changed_bounds_by_what_it_says_now() -> None:
    lowered = gpus(8, 0)
    lowered["spec"]["hard"] = {GPUS: "2"}
    assert len(told(scene(lowered), workload(1, replicas=3))) == 1


def test_a_quota_that_no_api_server_would_store_keeps_nobody_from_hearing_of_the_others() -> None:
    broken = gpus(2, 0, name="a")
    broken["spec"]["hard"] = {GPUS: "two"}
    assert len(told(scene(broken, gpus(2, 0)), workload(1, replicas=3))) == 1


def test_quotas_of_other_namespaces_and_of_other_things_say_nothing() -> None:
    assert told(scene(gpus(1, 0)), workload(1, replicas=3), namespace="team-b") == []
    assert told(scene(quota({"count/deployments.apps": "0"}, {"count/deployments.apps": "0"})), workload(1)) == []


class Unknown:
    """Quotas that are watched, and not known just now."""

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """Not known."""
        return None if namespace == "team-a" else ()


def test_where_quotas_are_not_known_nothing_is_said_and_caps_are_told_all_the_same() -> None:
    assert told(Scene(NO_CAPS, quotas=Unknown()), workload(1, replicas=99)) == []
    assert len(told(Scene(CAP, quotas=Unknown()), workload(1, replicas=99))) == 1


def test_caps_and_quotas_are_both_told_and_a_cap_that_denies_speaks_alone() -> None:
    warnings = told(scene(gpus(2, 0), text=CAP), workload(2, replicas=3))
    assert [warning.rsplit("(", 1)[1] for warning in warnings] == ["TG204, cap gpus)", "TG208)"]
    denied = refusal(scene(gpus(2, 0), text=CAP + "  workloads: deny\n"), workload(2, replicas=3))
    assert "TG208" not in denied["message"]


def test_nothing_is_said_to_what_a_controller_makes_or_in_the_mutating_phase() -> None:
    owned = workload(1, "ReplicaSet", replicas=3)
    owned["metadata"] = {"ownerReferences": [{"controller": True, "kind": "Deployment", "name": "d"}]}
    assert told(scene(gpus(2, 0)), owned) == []
    assert told(scene(gpus(2, 0)), workload(1, replicas=3), phase=Phase.MUTATING) == []
