"""Charges of a ResourceQuota for a pod."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tallygate.accounting.resource_quota import (
    compute_quota_charge,
    is_best_effort,
    is_counted_key,
    is_in_scope,
    is_terminating,
)
from tallygate.objects.core import Pod, PodSpec, ResourceQuotaSpec
from tests.accounting.objects import container, container_status, pod, quota, sidecar

GPU = "example.com/gpu"
ALONE = {"count/pods": "1", "pods": "1"}


def list_charges(a_pod: Pod, now: datetime | None = None) -> dict[str, str]:
    return {key: str(quantity) for key, quantity in compute_quota_charge(a_pod, now).items()}


@pytest.mark.parametrize(
    ("a_pod", "expected"),
    [
        pytest.param(pod(container("a")), {}, id="no requests"),
        pytest.param(Pod(), {}, id="no spec"),
        pytest.param(
            pod(container("a", {"cpu": 1}, {"cpu": 2})),
            {"cpu": "1", "requests.cpu": "1", "limits.cpu": "2"},
            id="cpu has three keys",
        ),
        pytest.param(
            pod(container("a", {"memory": "1Gi", "ephemeral-storage": "2Gi"})),
            {
                "memory": "1Gi",
                "requests.memory": "1Gi",
                "ephemeral-storage": "2Gi",
                "requests.ephemeral-storage": "2Gi",
            },
            id="a pod without limits has no limit keys",
        ),
        pytest.param(
            pod(container("a", None, {GPU: 2})), {f"requests.{GPU}": "2"}, id="an extended resource has one key"
        ),
        pytest.param(
            pod(container("a", {"hugepages-2Mi": "4Mi"})),
            {"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"},
            id="huge pages have two",
        ),
        pytest.param(
            pod(container("a", {"deviceclass.resource.kubernetes.io/gpu": 2})),
            {"requests.deviceclass.resource.kubernetes.io/gpu": "2"},
            id="a device class is counted",
        ),
        pytest.param(
            pod(container("a", {"pod.alpha.kubernetes.io/opaque-int-resource-x": 2, "foo.kubernetes.io/y": 1})),
            {},
            id="opaque and other kubernetes.io names are never counted",
        ),
        pytest.param(pod(container("a", {"gpu": 1, "requests.cpu": 1})), {}, id="unknown names are never counted"),
        pytest.param(
            pod(container("a", {GPU: 1}), initContainers=[sidecar("s", {GPU: 2}), container("i", {GPU: 3})]),
            {f"requests.{GPU}": "5"},
            id="by the effective request",
        ),
        pytest.param(
            pod(container("a", None, {GPU: 1}), overhead={GPU: 1}), {f"requests.{GPU}": "2"}, id="overhead included"
        ),
        pytest.param(
            pod(
                container("a", {"cpu": 2}),
                status={"containerStatuses": [container_status("a", resources={"requests": {"cpu": 3}})]},
            ),
            {"cpu": "3", "requests.cpu": "3"},
            id="a container that is being resized counts with the largest",
        ),
    ],
)
def test_keys_and_quantities(a_pod: Pod, expected: dict[str, str]) -> None:
    assert list_charges(a_pod) == {**ALONE, **expected}


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def create_deleted_pod(when: str, grace: int | None) -> Pod:
    return pod(container("a"), metadata={"deletionTimestamp": when, "deletionGracePeriodSeconds": grace})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_counts_as_an_object_only(phase: str) -> None:
    assert list_charges(pod(container("a", {"cpu": 1}), status={"phase": phase})) == {"count/pods": "1"}


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_in_another_phase_is_charged(phase: str) -> None:
    assert "requests.cpu" in list_charges(pod(container("a", {"cpu": 1}), status={"phase": phase}))


@pytest.mark.parametrize(
    ("grace", "now", "is_charged"),
    [
        pytest.param(30, "2026-01-01T00:00:00", True, id="at its deletion timestamp"),
        pytest.param(30, "2026-01-01T00:00:30", True, id="a grace later, to the second"),
        pytest.param(30, "2026-01-01T00:00:30.000001", False, id="just after that"),
        pytest.param(0, "2026-01-01T00:00:00.000001", False, id="without a grace"),
        pytest.param(None, "2027-01-01T00:00:00", True, id="an absent grace period never ends"),
    ],
)
def test_a_deleted_pod_is_charged_for_its_grace_after_its_timestamp(
    grace: int | None, now: str, *, is_charged: bool
) -> None:
    assert ("pods" in list_charges(create_deleted_pod("2026-01-01T00:00:00Z", grace), parse_time(now))) is is_charged


@pytest.mark.parametrize("metadata", [None, {}, {"deletionGracePeriodSeconds": 0}])
def test_a_pod_that_is_not_deleted_is_charged_at_any_time(metadata: dict[str, Any] | None) -> None:
    assert list_charges(pod(container("a"), metadata=metadata), parse_time("2026-01-01T00:00:00")) == ALONE


def test_a_deleted_pod_is_charged_if_the_time_is_unknown() -> None:
    assert list_charges(create_deleted_pod("2001-01-01T00:00:00Z", 0)) == ALONE


@pytest.mark.parametrize(
    ("key", "counted"),
    [
        ("cpu", True),
        ("requests.cpu", True),
        ("limits.memory", True),
        ("ephemeral-storage", True),
        ("pods", True),
        ("count/pods", True),
        ("hugepages-2Mi", True),
        ("requests.hugepages-2Mi", True),
        ("limits.hugepages-2Mi", False),
        (f"requests.{GPU}", True),
        (GPU, False),
        (f"limits.{GPU}", False),
        ("requests.foo.kubernetes.io/x", False),
        ("requests.deviceclass.resource.kubernetes.io/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu", False),
        ("pod.alpha.kubernetes.io/opaque-int-resource-x", False),
        ("services", False),
    ],
)
def test_counted_keys_of_a_quota(key: str, *, counted: bool) -> None:
    assert is_counted_key(key) is counted


def test_every_charged_key_is_one_that_counts() -> None:
    names = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        GPU,
        "deviceclass.resource.kubernetes.io/x",
        "a.io/b",
    ]
    charge = list_charges(pod(container("a", dict.fromkeys(names, 1), dict.fromkeys(names, 1))))
    assert all(is_counted_key(key) for key in charge)


def create_spec(**fields: Any) -> PodSpec:
    spec = pod(container("a"), **fields).spec
    assert spec is not None
    return spec


@pytest.mark.parametrize(
    ("spec", "best_effort"),
    [
        pytest.param(create_spec(), True, id="no requests"),
        pytest.param(create_spec(containers=[container("a", None, {GPU: 1})]), True, id="GPUs only"),
        pytest.param(create_spec(containers=[container("a", {"cpu": 0})]), True, id="zero cpu"),
        pytest.param(create_spec(containers=[container("a", {"cpu": "1m"})]), False, id="some cpu"),
        pytest.param(
            create_spec(initContainers=[container("i", None, {"memory": 1})]), False, id="memory of an init step"
        ),
        pytest.param(
            create_spec(containers=[container("a", {"cpu": 1})], resources={}),
            False,
            id="an empty pod level hides no containers since 1.37",
        ),
        pytest.param(create_spec(resources={"limits": {"cpu": 1}}), False, id="cpu of the pod level"),
    ],
)
def test_best_effort(spec: PodSpec, *, best_effort: bool) -> None:
    assert is_best_effort(spec) is best_effort
    assert _selects(_create_scoped_quota("BestEffort"), spec) is best_effort
    assert _selects(_create_scoped_quota("NotBestEffort"), spec) is not best_effort


@pytest.mark.parametrize(("deadline", "terminating"), [(None, False), (0, True), (5, True), (-1, False)])
def test_terminating(deadline: int | None, *, terminating: bool) -> None:
    spec = create_spec(activeDeadlineSeconds=deadline)
    assert is_terminating(spec) is terminating
    assert _selects(_create_scoped_quota("Terminating"), spec) is terminating
    assert _selects(_create_scoped_quota("NotTerminating"), spec) is not terminating


def _selects(spec: ResourceQuotaSpec, pod_spec: PodSpec) -> bool | None:
    return is_in_scope(spec, pod_spec, is_across=None)


def _create_scoped_quota(*scopes: str) -> Any:
    return quota(scopes=list(scopes)).spec


@pytest.mark.parametrize(
    ("operator", "values", "of_batch", "of_none"),
    [
        ("In", ["batch", "other"], True, False),
        ("In", ["other"], False, False),
        ("NotIn", ["batch"], False, True),
        ("NotIn", ["other"], True, True),
        ("Exists", None, True, False),
        ("DoesNotExist", None, False, True),
    ],
)
def test_priority_classes(operator: str, values: list[str] | None, *, of_batch: bool, of_none: bool) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    spec = quota(scopeSelector={"matchExpressions": [expression]}).spec
    assert spec is not None
    assert _selects(spec, create_spec(priorityClassName="batch")) is of_batch
    assert _selects(spec, create_spec()) is of_none


def test_a_quota_without_scopes_selects_every_pod() -> None:
    assert _selects(_create_scoped_quota(), create_spec()) is True


def test_scopes_of_other_objects_select_no_pod() -> None:
    assert _selects(_create_scoped_quota("VolumeAttributesClass"), create_spec()) is False


@pytest.mark.parametrize("is_across", [None, True, False])
def test_the_scope_of_affinity_across_namespaces(*, is_across: bool | None) -> None:
    across, both = (_create_scoped_quota(*each) for each in (("CrossNamespacePodAffinity",), _WITH_DEADLINE))
    assert is_in_scope(across, create_spec(), is_across=is_across) is is_across
    assert is_in_scope(both, create_spec(), is_across=is_across) is False


_WITH_DEADLINE = ("CrossNamespacePodAffinity", "Terminating")
