"""Warnings about ResourceQuotas that will reject pods of a workload, at its admission."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tallygate.accounting.pod_defaults import (
    NO_POD_DEFAULTS,
    UNKNOWN_POD_DEFAULTS,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.admission.request import Phase
from tallygate.kube.resource_codec import Replaced
from tallygate.objects.core import LimitRange, ResourceQuota
from tallygate.state.informers.namespaced_stores import QUOTA_CODEC, QuotaStore
from tests.gate.gate_fixture import CAP, GPU, GateFixture
from tests.gate.test_workload_forecast import get_rejection, list_messages, list_warnings, rolling, workload

NO_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""
GPUS = f"requests.{GPU}"


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


def create_fixture(
    *items: dict[str, Any], text: str = NO_CAPS, pod_defaults: PodDefaults = NO_POD_DEFAULTS
) -> GateFixture:
    """Return a gate with the given quotas, in a cluster whose pods get these values."""
    return GateFixture(text, quotas=quotas(*items), pod_defaults=pod_defaults)


def gpus(hard: int, used: int, **spec: Any) -> dict[str, Any]:
    """Return a quota of GPUs."""
    return quota({GPUS: str(hard)}, {GPUS: str(used)}, **spec)


def test_a_workload_that_fits_into_the_free_quota_gets_no_warning() -> None:
    assert list_warnings(create_fixture(gpus(8, 2)), workload(2, replicas=3)) == []


def test_a_workload_larger_than_a_quota_is_warned_with_the_sum_without_a_cap() -> None:
    assert list_warnings(create_fixture(gpus(4, 0)), workload(2, replicas=3)) == [f"3 6 {GPUS} hard=4 2 TG208"]
    assert list_warnings(create_fixture(gpus(1, 0)), workload(2, replicas=3)) == [f"3 6 {GPUS} hard=1 TG208"]


def test_a_workload_over_the_free_quota_is_warned_how_many_pods_wait() -> None:
    assert list_warnings(create_fixture(gpus(8, 5)), workload(2, replicas=3)) == [f"3 6 {GPUS} hard=8 free=3 2 TG208"]


def test_a_quota_that_is_compiled_from_a_cap_gives_no_second_warning() -> None:
    compiled = gpus(4, 0, name="tallygate-gpus")
    compiled["metadata"]["labels"] = {"tallygate.dev/compiled-from": "NamespaceCap", "tallygate.dev/policy": "gpus"}
    (warning,) = list_warnings(create_fixture(compiled, text=CAP), workload(2, replicas=3))
    assert "TG204" in warning


def test_a_change_is_warned_only_about_its_growth() -> None:
    full = create_fixture(gpus(8, 8))
    old = workload(2, replicas=3)
    assert list_warnings(full, workload(2, replicas=2), oldObject=old) == []
    assert list_warnings(full, workload(2, replicas=3, paused=True), oldObject=old) == []
    (warning,) = list_warnings(full, workload(2, replicas=4), oldObject=old)
    assert warning == f"4 8 {GPUS} hard=8 free=0 1 TG208"


def test_a_rollout_is_warned_about_the_pods_that_it_starts_first() -> None:
    new, old = (workload(2, image=image, replicas=2, strategy=rolling(1, 0)) for image in "ba")
    assert list_warnings(create_fixture(gpus(8, 6)), new, oldObject=old) == []
    (waits,) = list_warnings(create_fixture(gpus(8, 7)), new, oldObject=old)
    (never,) = list_warnings(create_fixture(gpus(4, 4)), new, oldObject=old)
    assert waits == f"1 3 6 {GPUS} hard=8 free=1 TG208"
    assert never == f"1 3 6 {GPUS} hard=4 never maxUnavailable TG208"


def test_cpu_memory_and_pods_are_counted_as_a_quota_counts_them() -> None:
    hard = {"cpu": "1", "requests.memory": "1Gi", "limits.cpu": "4", "pods": "3", "count/pods": "9"}
    body = workload(0, replicas=4)
    resources = {"requests": {"cpu": "300m", "memory": "512Mi"}, "limits": {"cpu": "1"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    assert list_warnings(create_fixture(quota(hard, dict.fromkeys(hard, "0"))), body) == [
        "4 1200m cpu hard=1 3 TG208",
        "4 4 hard=3 3 TG208",
        "4 2Gi requests.memory hard=1Gi 2 TG208",
    ]


def test_warnings_of_quotas_are_sorted_by_name() -> None:
    warnings = list_warnings(create_fixture(gpus(2, 0, name="b"), gpus(1, 0, name="a")), workload(1, replicas=3))
    assert [warning.split()[3] for warning in warnings] == ["hard=1", "hard=2"]


def _across(kind: str, **reach: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **reach}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _prefer(kind: str, **reach: Any) -> dict[str, Any]:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", **reach}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


_BURSTABLE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}}]}
_SCOPES: list[tuple[str, dict[str, Any], bool | None]] = [
    ("Terminating", {}, False),
    ("Terminating", {"activeDeadlineSeconds": 5}, True),
    ("NotTerminating", {}, True),
    ("NotBestEffort", {}, False),
    ("NotBestEffort", _BURSTABLE, True),
    ("BestEffort", {}, None),  # a LimitRange may change it
    ("BestEffort", _BURSTABLE, False),
    ("PriorityClass", {}, False),
    ("PriorityClass", {"priorityClassName": "high"}, True),
    ("CrossNamespacePodAffinity", {}, False),
    ("CrossNamespacePodAffinity", _across("podAffinity"), False),
    ("CrossNamespacePodAffinity", _across("podAffinity", namespaces=["x"]), True),
    ("CrossNamespacePodAffinity", _across("podAntiAffinity", namespaceSelector={}), True),
    ("CrossNamespacePodAffinity", _prefer("podAffinity", namespaceSelector={"matchLabels": {"a": "b"}}), True),
    ("CrossNamespacePodAffinity", _prefer("podAntiAffinity", namespaces=["x"]), True),
    ("CrossNamespacePodAffinity", _prefer("podAntiAffinity", namespaces=[]), False),
    ("VolumeAttributesClass", {}, False),
]
"""A scope, fields of a pod that requests one GPU, and whether it selects the pod; None where a default decides."""


@pytest.mark.parametrize(("scope", "pod", "is_selected"), _SCOPES)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("as_list", [True, False])
def test_a_scope_selects_pods_and_an_unsure_selection_does_not_warn(
    scope: str, pod: dict[str, Any], *, is_selected: bool | None, is_known: bool, as_list: bool
) -> None:
    match = {"matchExpressions": [{"scopeName": scope, "operator": "Exists"}]}
    fixture = create_fixture(
        gpus(2, 0, **({"scopes": [scope]} if as_list else {"scopeSelector": match})),
        pod_defaults=NO_POD_DEFAULTS if is_known else UNKNOWN_POD_DEFAULTS,
    )
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"] |= pod
    assert bool(list_warnings(fixture, body)) is (is_known if is_selected is None else is_selected)


@pytest.mark.parametrize(
    ("operator", "values", "name", "is_selected"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("In", ["high"], None, False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], "high", False),
        ("NotIn", ["high"], None, None),  # the default class of pods may be this one
        ("Exists", None, "low", True),
        ("DoesNotExist", None, None, None),
        ("DoesNotExist", None, "low", False),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_scope_selector_uses_the_class_of_the_template(
    operator: str, values: Sequence[str] | None, name: str | None, *, is_selected: bool | None, is_known: bool
) -> None:
    match = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    body = workload(1, replicas=3)
    body["spec"]["template"]["spec"]["priorityClassName"] = name
    fixture = create_fixture(
        gpus(2, 0, scopeSelector={"matchExpressions": [match]}),
        pod_defaults=NO_POD_DEFAULTS if is_known else UNKNOWN_POD_DEFAULTS,
    )
    assert bool(list_warnings(fixture, body)) is (is_known if is_selected is None else is_selected)


def test_the_scope_of_affinity_is_compared_with_what_the_stored_workload_had() -> None:
    across = _across("podAffinity", namespaces=["x"])
    new, old = workload(1, replicas=3), workload(1, replicas=3)
    for each in (new, old):
        each["spec"]["template"]["spec"] |= across
    fixture = create_fixture(gpus(2, 0, scopes=["CrossNamespacePodAffinity"]))
    assert list_warnings(fixture, new, oldObject=old) == []
    old["spec"]["template"]["spec"].pop("affinity")
    assert len(list_warnings(fixture, new, oldObject=old)) == 1


def _require(**hard: str) -> GateFixture:
    names = {each.replace("_", "."): amount for each, amount in hard.items()}
    return create_fixture(quota(names, dict.fromkeys(names, "0")))


def _containers(*resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    body = workload(0, replicas=2)
    containers = [{"name": f"c{index}", "resources": each} for index, each in enumerate(resources)]
    body["spec"]["template"]["spec"] = {"containers": containers, **spec}
    return body


_CPU = {"requests": {"cpu": "1m"}}
_NONE: Mapping[str, Any] = {}
_MISSING = "no pod is accepted until each container sets it (TG208)"
_COUNTS = "spec.template.spec.containers: quota q of this namespace counts"


@pytest.mark.parametrize(
    ("body", "key", "containers"),
    [
        pytest.param(_containers(_NONE), "cpu", "c0", id="no request"),
        pytest.param(_containers(_NONE), "requests_cpu", "c0", id="by its full name"),
        pytest.param(_containers(_CPU, _NONE, _NONE), "requests_cpu", "c1, c2", id="two of three containers"),
        pytest.param(_containers(_CPU), "limits_cpu", "c0", id="no limit"),
        pytest.param(_containers({"limits": {"memory": "0"}}), "limits_memory", "", id="a limit of 0 is one"),
        pytest.param(_containers({"limits": {"memory": "1Mi"}}), "memory", "", id="a limit is a request"),
        pytest.param(_containers(_CPU, initContainers=[{"name": "i"}]), "cpu", "i", id="an init container"),
        pytest.param(_containers(_NONE, resources=_CPU), "limits_memory", "", id="any amount at the pod level"),
        pytest.param(_containers(_NONE, resources={"limits": {}}), "cpu", "c0", id="an empty pod level"),
        pytest.param(_containers(_NONE), "requests_ephemeral-storage", "", id="a resource that is not required"),
        pytest.param(_containers(_NONE), "pods", "", id="a number of pods"),
    ],
)
def test_a_quota_on_cpu_or_memory_requires_it_of_each_container(
    body: dict[str, Any], key: str, containers: str
) -> None:
    name = key.replace("_", ".")
    expected = [f"{_COUNTS} {name}, which is missing on {containers}: {_MISSING}"] if containers else []
    assert list_messages(_require(**{key: "900M"}), body) == expected


def test_the_pods_that_a_quota_rejects_for_a_missing_amount_have_no_other_forecast_under_it() -> None:
    hard = {"limits.cpu": "9", "pods": "1"}
    fixture = create_fixture(quota(hard, dict.fromkeys(hard, "0")))
    assert list_warnings(fixture, _containers(_CPU)) == ["spec.template.spec.containers: limits.cpu missing c0 TG208"]


def test_a_missing_amount_is_reported_once_and_never_where_a_limit_range_may_give_it() -> None:
    old, new = _containers(_NONE), _containers(_NONE)
    new["spec"]["replicas"] = 5
    assert list_warnings(_require(cpu="9"), new, oldObject=old) == []
    (warning,) = list_warnings(_require(cpu="9"), _containers(_NONE, _NONE), oldObject=old)
    assert "c0 c1" in warning
    unknown = create_fixture(quota({"cpu": "9"}, {"cpu": "0"}), pod_defaults=UNKNOWN_POD_DEFAULTS)
    assert list_warnings(unknown, new) == []
    body = {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}
    limit_range = msgspec.json.decode(json.dumps(body), type=LimitRange)
    given = create_fixture(quota({"cpu": "9"}, {"cpu": "0"}), pod_defaults=create_pod_defaults([limit_range], {}))
    assert list_warnings(given, new) == []
    assert list_warnings(_require(cpu="9"), _containers(_NONE) | {"spec": {**old["spec"], "replicas": 0}}) == []


def test_a_scope_that_does_not_select_a_pod_requires_nothing_of_it() -> None:
    scoped = quota({"limits.cpu": "9"}, {"limits.cpu": "0"}, scopes=["NotBestEffort"])
    assert list_warnings(create_fixture(scoped), _containers(_NONE)) == []
    assert len(list_warnings(create_fixture(scoped), _containers(_CPU))) == 1


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
    assert [warning.removesuffix(" gpus").split()[-1] for warning in warnings] == ["TG204", "TG208"]
    denied = get_rejection(create_fixture(gpus(2, 0), text=CAP + "  workloads: deny\n"), workload(2, replicas=3))
    assert "TG208" not in denied["message"]


def test_an_owned_workload_and_the_mutating_phase_get_no_warning() -> None:
    owned = workload(1, "ReplicaSet", replicas=3)
    owned["metadata"] = {"ownerReferences": [{"controller": True, "kind": "Deployment", "name": "d"}]}
    assert list_warnings(create_fixture(gpus(2, 0)), owned) == []
    assert list_warnings(create_fixture(gpus(2, 0)), workload(1, replicas=3), phase=Phase.MUTATING) == []
