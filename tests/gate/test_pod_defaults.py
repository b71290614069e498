"""Forecasts count what built-in admission gives the pods of a workload; nothing hangs on what is not known."""

import json
from typing import Any

import msgspec
import pytest

from tallygate.accounting.pod_defaults import (
    NO_POD_DEFAULTS,
    UNKNOWN_POD_DEFAULTS,
    ContainerDefaults,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import LimitRange
from tallygate.objects.scheduling import RuntimeClass, RuntimeClassOverhead
from tests.gate.gate_fixture import CAP, GateFixture, response
from tests.gate.test_quotas import gpus, quotas

LIMITS = CAP.replace("nvidia.com/gpu: 4", "limits.memory: 2Gi") + "  workloads: deny\n"
PRIORITY = CAP + "  workloads: deny\n  pods: {priorityClasses: [std]}\n"
MEMORY = {"memory": Quantity.parse("512Mi")}
ONE_GPU = {"nvidia.com/gpu": Quantity.from_int(1)}


def list_messages(fixture: GateFixture, resources: dict[str, Any], /, replicas: int = 1, **spec: Any) -> list[str]:
    """Return the warnings about a Deployment whose container has these resources, or its denial."""
    template = {"spec": {"containers": [{"name": "c", "resources": resources}], **spec}}
    body = {"kind": "Deployment", "spec": {"replicas": replicas, "template": template}}
    result = response(fixture.admit(body, kind={"group": "apps", "kind": "Deployment"}, name="w"))
    warnings: list[str] = result.get("warnings", [])
    return warnings if result["allowed"] else [f"denied: {result['status']['message']}"]


def test_a_limit_that_a_limit_range_gives_is_not_missing() -> None:
    assert "TG203" in list_messages(GateFixture(LIMITS), {})[0]
    given = PodDefaults(ContainerDefaults(MEMORY, MEMORY))
    assert list_messages(GateFixture(LIMITS, pod_defaults=given), {}, replicas=4) == []


def test_the_pods_count_with_the_limit_that_they_get() -> None:
    given = PodDefaults(ContainerDefaults(MEMORY, MEMORY))
    (message,) = list_messages(GateFixture(LIMITS, pod_defaults=given), {}, replicas=5)
    assert "5 replicas request 2560Mi limits.memory" in message


@pytest.mark.parametrize("resources", [{}, {"limits": {"memory": "0"}}], ids=["no limit", "a limit of 0"])
def test_no_denial_hangs_on_limit_ranges_that_are_unknown(resources: dict[str, Any]) -> None:
    (message,) = list_messages(GateFixture(LIMITS, pod_defaults=UNKNOWN_POD_DEFAULTS), resources)
    if resources:
        assert message.startswith("denied")
    else:
        assert "whether a LimitRange gives it to them is not known here" in message


def test_devices_that_a_limit_range_gives_count() -> None:
    given = PodDefaults(ContainerDefaults(ONE_GPU, ONE_GPU))
    (message,) = list_messages(GateFixture(CAP, pod_defaults=given), {}, replicas=5)
    assert "5 replicas request 5 nvidia.com/gpu" in message
    quota_gate = GateFixture(CAP.replace("gpu: 4", "gpu: 9"), quotas=quotas(gpus(3, 0)), pod_defaults=given)
    (message,) = list_messages(quota_gate, {}, replicas=5)
    assert "TG208" in message


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        pytest.param(NO_POD_DEFAULTS, "", id="no default class"),
        pytest.param(PodDefaults(priority_class="other"), "", id="another default class"),
        pytest.param(PodDefaults(priority_class="std"), "TG204", id="the default class is counted"),
        pytest.param(UNKNOWN_POD_DEFAULTS, "get it by default is not known here", id="the classes are unknown"),
    ],
)
def test_pods_without_a_class_count_under_the_cap_of_the_default_class(defaults: PodDefaults, expected: str) -> None:
    messages = list_messages(GateFixture(PRIORITY, pod_defaults=defaults), {"limits": {"nvidia.com/gpu": "1"}}, 5)
    assert [expected in each for each in messages] == ([True] if expected else [])


KATA = {"kata": RuntimeClass(overhead=RuntimeClassOverhead({"cpu": msgspec.Raw(b'"250m"')}))}
CPU = CAP.replace("nvidia.com/gpu: 4", "cpu: 4") + "  workloads: deny\n"


@pytest.mark.parametrize(
    ("defaults", "replicas", "expected"),
    [
        pytest.param(PodDefaults(runtime_classes=KATA), 2, "", id="it fits beside the overhead"),
        pytest.param(PodDefaults(runtime_classes=KATA), 4, "denied: 4 replicas request 5 cpu", id="it does not"),
        pytest.param(NO_POD_DEFAULTS, 4, "", id="there is no such class"),
        pytest.param(
            UNKNOWN_POD_DEFAULTS,
            4,
            "cap gpus counts cpu: the overhead of RuntimeClass kata is not known here",
            id="the classes are unknown",
        ),
        pytest.param(UNKNOWN_POD_DEFAULTS, 5, "denied: 5 replicas request 5 cpu", id="it exceeds without an overhead"),
    ],
)
def test_the_overhead_of_a_runtime_class_counts(defaults: PodDefaults, replicas: int, expected: str) -> None:
    messages = list_messages(
        GateFixture(CPU, pod_defaults=defaults), {"requests": {"cpu": "1"}}, replicas, runtimeClassName="kata"
    )
    assert len(messages) == bool(expected)
    assert all(expected.removeprefix("denied: ") in each for each in messages)
    assert all(each.startswith("denied") == expected.startswith("denied") for each in messages)


def create_defaults(**item: Any) -> PodDefaults:
    """Return the defaults of a namespace with a LimitRange of one entry."""
    limit_range = {"metadata": {"name": "usual"}, "spec": {"limits": [{"type": "Container", **item}]}}
    return create_pod_defaults([msgspec.json.decode(json.dumps(limit_range), type=LimitRange)], {})


MAXIMUM = create_defaults(max={"cpu": "2"})


@pytest.mark.parametrize(
    ("defaults", "resources", "expected"),
    [
        pytest.param(MAXIMUM, {"limits": {"cpu": "4"}}, "LimitRange usual allows at most 2 cpu", id="above a maximum"),
        pytest.param(MAXIMUM, {"limits": {"cpu": "2"}}, "", id="at the maximum"),
        pytest.param(MAXIMUM, {}, "", id="the maximum is the default"),
        pytest.param(
            MAXIMUM,
            {"requests": {"cpu": "3"}},
            "a LimitRange of the namespace sets what the pod does not write",
            id="a request above the default limit",
        ),
        pytest.param(create_defaults(min={"cpu": "1"}), {"requests": {"cpu": "0.5"}}, "TG024", id="below a minimum"),
        pytest.param(create_defaults(maxLimitRequestRatio={"cpu": "2"}), {}, "TG024", id="a ratio without amounts"),
        pytest.param(NO_POD_DEFAULTS, {"limits": {"cpu": "4"}}, "", id="no limit range"),
        pytest.param(
            PodDefaults(runtime_classes=KATA),
            {},
            "RuntimeClass kata has another overhead",
            id="another overhead than that of the class",
        ),
    ],
)
def test_pods_that_the_api_server_rejects_are_warnings_of_the_workload(
    defaults: PodDefaults, resources: dict[str, Any], expected: str
) -> None:
    more: dict[str, Any] = {"runtimeClassName": "kata", "overhead": {"cpu": "1"}} if defaults.runtime_classes else {}
    messages = list_messages(GateFixture(CAP, pod_defaults=defaults), resources, **more)
    assert bool(messages) == bool(expected)
    assert all(not each.startswith("denied") for each in messages)
    assert any(expected in each for each in messages) == bool(expected)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("4", "5", True), ("2", "4", True), ("4", "4", False), ("4", "2", False)],
)
def test_a_change_gets_warnings_of_new_rejections_only(before: str, after: str, *, expected: bool) -> None:
    def create_body(cpu: str) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": cpu}}}]}}
        return {"kind": "Deployment", "spec": {"replicas": 1, "template": template}}

    kind = {"group": "apps", "kind": "Deployment"}
    fixture = GateFixture(CAP, pod_defaults=MAXIMUM)
    result = response(fixture.admit(create_body(after), oldObject=create_body(before), kind=kind, name="w"))
    assert bool(result.get("warnings")) == expected


def test_a_workload_without_pods_gets_no_warning() -> None:
    assert list_messages(GateFixture(CAP, pod_defaults=MAXIMUM), {"limits": {"cpu": "4"}}, replicas=0) == []


@pytest.mark.parametrize(
    ("of_pod", "resources", "expected"),
    [
        pytest.param(
            {"requests": {"memory": "64Mi"}},
            {"limits": {"memory": "1Gi"}},
            "of 1Gi together",
            id="limits stand for requests",
        ),
        pytest.param(
            {"limits": {"cpu": "1"}}, {"requests": {"cpu": "3"}}, "TG", id="a request that the pod level gets"
        ),
        pytest.param(
            {"requests": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}, "", id="enough for the containers"
        ),
        pytest.param({}, {"limits": {"memory": "1Gi"}}, "", id="an empty pod level"),
    ],
)
@pytest.mark.parametrize("defaults", [NO_POD_DEFAULTS, UNKNOWN_POD_DEFAULTS], ids=["known", "unknown"])
def test_a_template_that_is_stored_and_pods_that_are_not(
    defaults: PodDefaults, of_pod: dict[str, Any], resources: dict[str, Any], expected: str
) -> None:
    messages = list_messages(GateFixture(CAP, pod_defaults=defaults), resources, resources=of_pod)
    assert bool(messages) == bool(expected)
    assert all(expected in each and "LimitRange" not in each for each in messages)


def test_a_pod_level_is_compared_with_the_containers_after_their_defaults() -> None:
    given = create_defaults(default={"cpu": "500m"})
    containers = [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}}]
    fixture = GateFixture(CAP, pod_defaults=given)
    assert list_messages(fixture, {}, resources={"limits": {"cpu": "3"}}, initContainers=containers) == []
    (message,) = list_messages(fixture, {}, resources={"requests": {"cpu": "600m"}}, initContainers=containers)
    assert "a LimitRange of the namespace sets what the pod does not write" in message
