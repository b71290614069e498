"""Values that built-in admission gives new pods: those of LimitRanges, and the default PriorityClass."""

import json
from typing import Any

import msgspec
import pytest

from tallygate.accounting.pod_defaults import (
    UNKNOWN_POD_DEFAULTS,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.objects.core import LimitRange, Pod
from tallygate.objects.scheduling import PriorityClass

GPU = "nvidia.com/gpu"


def limit_range(*items: dict[str, Any]) -> LimitRange:
    """Return a LimitRange with these entries, of type Container unless they name another."""
    body = {"spec": {"limits": [{"type": "Container", **item} for item in items]}}
    return msgspec.json.decode(json.dumps(body), type=LimitRange)


def find_defaults(*limit_ranges: LimitRange, **classes: PriorityClass) -> PodDefaults:
    """Return the defaults by these LimitRanges and PriorityClasses, which are all."""
    return create_pod_defaults(limit_ranges, classes)


def complete(defaults: PodDefaults, **spec: Any) -> dict[str, Any]:
    """Return the spec of a completed pod."""
    pod = msgspec.json.decode(json.dumps({"spec": spec}), type=Pod)
    completed: dict[str, Any] = json.loads(msgspec.json.encode(defaults.complete(pod)))["spec"]
    return completed


@pytest.mark.parametrize(
    ("item", "written", "requests", "limits"),
    [
        pytest.param({"default": {"cpu": "2"}}, {}, {"cpu": "2"}, {"cpu": "2"}, id="a default is request and limit"),
        pytest.param(
            {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            {},
            {"cpu": "1"},
            {"cpu": "2"},
            id="both",
        ),
        pytest.param({"max": {GPU: "1"}}, {}, {GPU: "1"}, {GPU: "1"}, id="a maximum is the default"),
        pytest.param({"min": {"cpu": "1"}}, {}, {"cpu": "1"}, None, id="a minimum is the default request"),
        pytest.param({"defaultRequest": {GPU: "1"}}, {}, {GPU: "1"}, None, id="a default request alone sets no limit"),
        pytest.param(
            {"default": {"cpu": "2"}}, {"limits": {"cpu": "3"}}, None, {"cpu": "3"}, id="a limit of its own is kept"
        ),
        pytest.param(
            {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            {"limits": {"cpu": "3"}},
            None,
            {"cpu": "3"},
            id="the request of a limit is that limit, which the API server has copied before",
        ),
        pytest.param(
            {"default": {"cpu": "2"}}, {"requests": {"cpu": "3"}}, {"cpu": "3"}, {"cpu": "2"}, id="a larger request"
        ),
        pytest.param({"default": {"cpu": "2"}}, {"limits": {"cpu": "0"}}, None, {"cpu": "0"}, id="a limit of 0"),
        pytest.param({"type": "Pod", "max": {"cpu": "2"}}, {}, None, None, id="the type Pod has no defaults"),
    ],
)
def test_each_container_gets_what_it_lacks(
    item: dict[str, Any], written: dict[str, Any], requests: object, limits: object
) -> None:
    containers = [{"name": "a", "resources": written}]
    spec = complete(find_defaults(limit_range(item)), containers=containers, initContainers=containers)
    for completed in (*spec["containers"], *spec["initContainers"]):
        resources = completed["resources"]
        assert (resources.get("requests") or None, resources.get("limits") or None) == (requests, limits)


def test_several_limit_ranges_add_up() -> None:
    defaults = find_defaults(limit_range({"default": {"cpu": "2"}}), limit_range({"default": {"memory": "1Gi"}}))
    (container,) = complete(defaults, containers=[{"name": "a"}])["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}


def test_limit_ranges_that_differ_are_unknown() -> None:
    defaults = find_defaults(limit_range({"default": {"cpu": "2"}}), limit_range({"default": {"cpu": "1"}}))
    assert not defaults.has_limit_ranges
    assert complete(defaults, containers=[{"name": "a"}]) == {"containers": [{"name": "a"}]}


_POD_LEVELS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"limits": {"cpu": "4"}}, {}, {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}),
    ({"requests": {"cpu": "3"}}, {}, {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}),
    ({"requests": {"cpu": "1500m"}}, {}, {"limits": {"cpu": "2"}, "requests": {"cpu": "1500m"}}),
    ({"requests": {"memory": "1Gi"}}, {}, {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi", "cpu": "1"}}),
    (
        {"requests": {"cpu": "1"}},
        {"limits": {"memory": "1Gi"}},
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    ),
    ({}, {}, {}),
]


@pytest.mark.parametrize(("written", "container", "expected"), _POD_LEVELS)
def test_the_pod_level_is_completed_after_the_containers(
    written: dict[str, Any], container: dict[str, Any], expected: dict[str, Any]
) -> None:
    defaults = find_defaults(limit_range({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}))
    spec = complete(defaults, containers=[{"name": "a", "resources": container}], resources=written)
    assert spec["resources"] == expected


def test_one_container_without_a_limit_leaves_the_pod_level_without_it() -> None:
    containers = [{"name": "a", "resources": {"limits": {"cpu": "2"}}}, {"name": "b"}]
    spec = complete(find_defaults(), containers=containers, resources={"requests": {"cpu": "3"}})
    assert spec["resources"] == {"requests": {"cpu": "3"}}


@pytest.mark.parametrize(
    ("pod_level", "container"),
    [
        pytest.param({"requests": {"cpu": "x"}}, {}, id="at pod level"),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1x"}}, id="in a container"),
    ],
)
def test_a_pod_level_next_to_an_invalid_quantity_stays_as_it_is_written(
    pod_level: dict[str, Any], container: dict[str, Any]
) -> None:
    completed = complete(find_defaults(), resources=pod_level, containers=[{"name": "c", "resources": container}])
    assert completed["resources"] == pod_level


def test_a_pod_without_containers_keeps_its_pod_level() -> None:
    """Complete it as written, although the API server rejects such a pod: it stopped the command that explains it."""
    spec = complete(find_defaults(), containers=[], resources={"requests": {"cpu": "3"}})
    assert spec["resources"] == {"requests": {"cpu": "3"}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [({}, "std"), ({"priorityClassName": "high"}, "high")],
    ids=["the default class", "a class of its own"],
)
def test_a_pod_without_a_class_gets_the_default_one(written: dict[str, Any], expected: str) -> None:
    classes = {
        name: msgspec.json.decode(json.dumps({"metadata": {"name": name}, "value": value, "globalDefault": default}))
        for name, value, default in (("std", 1, True), ("also", 2, True), ("high", 9, False))
    }
    defaults = create_pod_defaults((), msgspec.convert(classes, dict[str, PriorityClass]))
    assert complete(defaults, containers=[], **written)["priorityClassName"] == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({}, True), ({"cpu": "0"}, False)],
    ids=["no limit", "a limit of 0"],
)
def test_only_a_missing_limit_may_come_from_limit_ranges_that_are_unknown(
    limits: dict[str, str], *, expected: bool
) -> None:
    body = {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}
    pod = msgspec.json.decode(json.dumps(body), type=Pod)
    assert UNKNOWN_POD_DEFAULTS.may_limit(pod, "cpu", "a") is expected
    assert not find_defaults().may_limit(pod, "cpu", "a")
