"""What the RuntimeClass of a pod gives it, and the pods that admission rejects for their class."""

import json
from typing import Any

import msgspec
import pytest

from tallygate.accounting.pod_defaults import (
    NO_POD_DEFAULTS,
    UNKNOWN_POD_DEFAULTS,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.accounting.runtime_classes import find_class_problem
from tallygate.objects.core import Pod, PodSpec
from tallygate.objects.scheduling import RuntimeClass, SchedulingPod

KATA = {
    "metadata": {"name": "kata"},
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
}
PLAIN = {"metadata": {"name": "plain"}}


def decode_classes(*classes: dict[str, Any]) -> dict[str, RuntimeClass]:
    """Return the classes by name."""
    return {each["metadata"]["name"]: msgspec.json.decode(json.dumps(each), type=RuntimeClass) for each in classes}


def decode_pod(**spec: Any) -> SchedulingPod:
    """Return a pod with these fields of its spec."""
    return msgspec.json.decode(json.dumps({"spec": {"containers": [{"name": "a"}], **spec}}), type=SchedulingPod)


DEFAULTS = create_pod_defaults((), {}, decode_classes(KATA, PLAIN))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({}, {}, id="no class"),
        pytest.param({"runtimeClassName": "plain"}, {}, id="a class that gives nothing"),
        pytest.param({"runtimeClassName": "other"}, {}, id="a class that is not there"),
        pytest.param(
            {"runtimeClassName": "kata"},
            {
                "overhead": {"cpu": "250m"},
                "nodeSelector": {"vm": "yes"},
                "tolerations": [{"key": "vm", "operator": "Exists"}],
            },
            id="overhead, selector and tolerations",
        ),
        pytest.param(
            {
                "runtimeClassName": "kata",
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "vm", "operator": "Exists"}, {"key": "gpu"}],
            },
            {
                "overhead": {"cpu": "250m"},
                "nodeSelector": {"vm": "yes", "zone": "a"},
                "tolerations": [{"key": "vm", "operator": "Exists"}, {"key": "gpu"}],
            },
            id="beside what the pod has",
        ),
    ],
)
def test_a_pod_gets_what_its_class_has(written: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = json.loads(msgspec.json.encode(DEFAULTS.complete(decode_pod(**written)).spec))
    assert {name: each for name, each in spec.items() if name not in {"containers", "runtimeClassName"}} == expected


def test_a_pod_without_tolerations_gets_the_overhead_too() -> None:
    pod = msgspec.json.decode(b'{"spec": {"runtimeClassName": "kata"}}', type=Pod)
    spec = DEFAULTS.complete(pod).spec
    assert spec is not None
    assert spec.overhead is not None
    assert ([*spec.overhead], spec.node_selector) == (["cpu"], {"vm": "yes"})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, "", id="neither class nor overhead"),
        pytest.param({"overhead": {"cpu": "1"}}, "names no class", id="an overhead without a class"),
        pytest.param(
            {"overhead": {"cpu": "1"}, "runtimeClassName": "plain"}, "has no overhead", id="none in the class"
        ),
        pytest.param({"overhead": {"cpu": "1"}, "runtimeClassName": "kata"}, "write cpu: 250m", id="another overhead"),
        pytest.param({"overhead": {"cpu": "0.25"}, "runtimeClassName": "kata"}, "", id="the same amount"),
        pytest.param({"overhead": {"cpu": "1"}, "runtimeClassName": "other"}, "", id="a class that is not known"),
        pytest.param({"nodeSelector": {"vm": "no"}, "runtimeClassName": "kata"}, "with vm: yes", id="other nodes"),
        pytest.param({"nodeSelector": {"vm": "yes"}, "runtimeClassName": "kata"}, "", id="the same nodes"),
    ],
)
def test_a_pod_that_differs_from_its_class_is_rejected(spec: dict[str, Any], expected: str) -> None:
    found = find_class_problem(
        msgspec.json.decode(json.dumps(spec), type=PodSpec), DEFAULTS.runtime_classes, is_stored=True
    )
    assert (found is not None) == bool(expected)
    assert found is None or expected in found.message


@pytest.mark.parametrize(("is_stored", "is_rejected"), [(True, False), (False, True)])
def test_an_empty_overhead_is_one_in_a_pod_and_none_in_a_stored_template(*, is_stored: bool, is_rejected: bool) -> None:
    found = find_class_problem(PodSpec(overhead={}), DEFAULTS.runtime_classes, is_stored=is_stored)
    assert (found is not None) == is_rejected


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [(UNKNOWN_POD_DEFAULTS, "other"), (NO_POD_DEFAULTS, ""), (DEFAULTS, "")],
    ids=["the classes are unknown", "there are none", "there are others"],
)
def test_only_a_class_that_may_exist_is_unknown(defaults: PodDefaults, expected: str) -> None:
    assert defaults.find_unknown_class(decode_pod(runtimeClassName="other")) == expected
    assert defaults.find_unknown_class(decode_pod()) == ""
