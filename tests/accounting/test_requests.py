"""Effective requests: every case of the formula, with exact texts and amounts."""

from typing import Any

import pytest

from tallygate.accounting.pod_requests import compute_pod_limits, compute_pod_requests
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.core import PodSpec
from tests.accounting.objects import container, pod_spec, sidecar

GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"


def one(quantity: Any) -> dict[str, Any]:
    return {GPU: quantity}


def list_texts(listed: Any) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in listed.items()}


C1, C2 = container("a", one(1)), container("b", one(2))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod_spec(C1, C2, initContainers=[container("i", one(4))]), "4", id="a larger init step decides"),
        pytest.param(pod_spec(C1, C2, initContainers=[container("i", one(2))]), "3", id="a smaller init step does not"),
        pytest.param(pod_spec(C1, C2, initContainers=[container("i", one(3))]), "3", id="an equal init step does not"),
        pytest.param(
            pod_spec(C1, initContainers=[sidecar("s", one(2)), container("i", one(3))]),
            "5",
            id="a sidecar declared before an init step runs beneath it",
        ),
        pytest.param(
            pod_spec(C1, initContainers=[container("i", one(3)), sidecar("s", one(2))]),
            "3",
            id="a sidecar declared after an init step does not",
        ),
        pytest.param(
            pod_spec(C1, initContainers=[sidecar("s", one(2)), sidecar("t", one(1))]),
            "4",
            id="sidecars add up with containers",
        ),
        pytest.param(
            pod_spec(C1, initContainers=[container("i", one(2)), container("j", one(2))]),
            "2",
            id="init steps take turns",
        ),
        pytest.param(pod_spec(C1, overhead=one(1)), "2", id="overhead is added"),
        pytest.param(pod_spec(container("a"), overhead=one(1)), "1", id="overhead alone is a request"),
        pytest.param(
            pod_spec(C1, resources={"requests": one(5)}), "1", id="the pod level cannot replace an extended resource"
        ),
        pytest.param(pod_spec(container("a", None, one(3))), "3", id="a missing request is taken from the limit"),
        pytest.param(pod_spec(container("a", one(1), one(3))), "1", id="a request that is there stays"),
        pytest.param(
            pod_spec(container("a"), initContainers=[container("i", None, one(3))]),
            "3",
            id="init containers' requests default to limits",
        ),
        pytest.param(
            pod_spec(container("a", one("1500m")), container("b", one("1500m"))), "3", id="halves add up exactly"
        ),
        pytest.param(pod_spec(container("a", one("+4"))), "+4", id="a single quantity keeps its text"),
        pytest.param(pod_spec(container("a", one("+4")), container("b", one("0"))), "4", id="a sum has canonical text"),
        pytest.param(
            pod_spec(container("a", one("1Ki")), container("b", one("1023Ki"))), "1Mi", id="a sum keeps its format"
        ),
        pytest.param(
            pod_spec(container("a", one("0")), container("b", one("1Ki"))), "1Ki", id="zero adopts the other's format"
        ),
        pytest.param(
            pod_spec(container("a", one("1")), container("b", one("1Ki"))), "1025", id="the first format wins"
        ),
        pytest.param(pod_spec(container("a", one("1n"))), "1m", id="a fraction of a thousandth is rounded up"),
        pytest.param(
            pod_spec(container("a", one("10E")), container("b", one("10E"))), "20E", id="sums beyond int64 are right"
        ),
        pytest.param(pod_spec(container("a", one(None))), "0", id="null is zero"),
    ],
)
def test_effective_request_of_an_extended_resource(spec: PodSpec, expected: str) -> None:
    assert compute_pod_requests(spec).quantities[GPU].text == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod_spec(container("a", {"cpu": 1}), container("b", {"cpu": 1}), resources={"requests": {"cpu": 3}}),
            {"cpu": "3"},
            id="the pod level replaces the sum of cpu",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": 5}), resources={"requests": {"cpu": 3}}),
            {"cpu": "3"},
            id="even when it is smaller",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": 1}), resources={"requests": {"cpu": 3}}, overhead={"cpu": "500m"}),
            {"cpu": "3500m"},
            id="overhead is added to the pod level",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": 1, "memory": "1Gi"}), resources={"limits": {"cpu": 4}}),
            {"cpu": "1", "memory": "1Gi"},
            id="a missing pod level request is the containers' sum",
        ),
        pytest.param(
            pod_spec(container("a", {"memory": "1Gi"}), resources={"limits": {"cpu": 4}}),
            {"cpu": "4", "memory": "1Gi"},
            id="or the pod level limit when no container has one",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": 1}), resources={"requests": {"memory": "1Gi"}}),
            {"cpu": "1", "memory": "1Gi"},
            id="without pod level limits no request gets a default",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": 1, HUGE: "4Mi"}, {HUGE: "4Mi"}), resources={"limits": {"cpu": 2}}),
            {"cpu": "1", HUGE: "4Mi"},
            id="hugepages of the pod level come from the containers' limits",
        ),
        pytest.param(
            pod_spec(
                container("a", {"cpu": "0.5m"}), container("b", {"cpu": "0.5m"}), resources={"limits": {"cpu": 4}}
            ),
            {"cpu": "1m"},
            id="the pod level sums up before rounding",
        ),
        pytest.param(
            pod_spec(container("a", {"cpu": "0.5m"}), container("b", {"cpu": "0.5m"})),
            {"cpu": "2m"},
            id="containers are rounded one by one",
        ),
        pytest.param(pod_spec(container("a"), resources={}), {}, id="an empty pod level has no effect"),
        pytest.param(PodSpec(), {}, id="no containers"),
        pytest.param(pod_spec({"name": "a"}), {}, id="a container without resources"),
    ],
)
def test_effective_requests_with_a_pod_level(spec: PodSpec, expected: dict[str, str]) -> None:
    assert list_texts(compute_pod_requests(spec).quantities) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod_spec(container("a", None, {"cpu": 1}), container("b", {"cpu": 1})),
            {"cpu": "1"},
            id="a container without a limit adds no amount",
        ),
        pytest.param(
            pod_spec(container("a", None, {"cpu": 1}), overhead={"cpu": 1, "memory": 1}),
            {"cpu": "2"},
            id="overhead is added to limits that are there",
        ),
        pytest.param(
            pod_spec(container("a", None, {"cpu": 0}), overhead={"cpu": 1}),
            {"cpu": "0"},
            id="but not to limits of zero",
        ),
        pytest.param(
            pod_spec(container("a", None, {"cpu": 1}), resources={"limits": {"cpu": 3}}),
            {"cpu": "3"},
            id="the pod level replaces limits too",
        ),
        pytest.param(
            pod_spec(container("a", None, {"cpu": 1}), initContainers=[sidecar("s", None, {"cpu": 2})]),
            {"cpu": "3"},
            id="sidecars add up",
        ),
        pytest.param(
            pod_spec(container("a", None, {"cpu": 1}), initContainers=[container("i", None, {"cpu": 2})]),
            {"cpu": "2"},
            id="init steps take the maximum",
        ),
    ],
)
def test_effective_limits(spec: PodSpec, expected: dict[str, str]) -> None:
    assert list_texts(compute_pod_limits(spec).quantities) == expected


def test_amounts_are_rounded_once_after_summing() -> None:
    name = "foo.kubernetes.io/x"
    halves = compute_pod_requests(
        pod_spec(container("a", {name: "500m"}), container("b", {name: "500m"}), container("c", {name: "1m"}))
    )
    assert dict(halves.amounts) == {name: 2}


def test_cpu_is_in_thousandths_and_memory_in_bytes() -> None:
    effective = compute_pod_requests(pod_spec(container("a", {"cpu": "1500m", "memory": "1Ki"})))
    assert dict(effective.amounts) == {"cpu": 1500, "memory": 1024}


def test_an_invalid_quantity_is_an_error() -> None:
    with pytest.raises(QuantityError, match="suffix"):
        compute_pod_requests(pod_spec(container("a", {"memory": "1K"})))
