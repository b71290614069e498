"""Whether a pod fits on one node: the scheduler's own arithmetic, row by row."""

from typing import Any

import pytest

from tests.accounting.objects import container, node, pod, running, sidecar
from webhook.accounting.node_fit import Shortfall, find_shortfalls
from webhook.objects.core import Node, Pod

GPU = "example.com/gpu"
OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-x"


def asks(name: str, quantity: Any) -> Pod:
    return pod(container("a", {name: quantity}))


def has(name: str, quantity: Any, pods: Any = 10) -> Node:
    return node({name: quantity, "pods": pods})


def lacks(name: str, requested: int, used: int, capacity: int) -> Shortfall:
    return Shortfall(name, requested, used, capacity, unresolvable=requested > capacity)


@pytest.mark.parametrize(
    ("a_pod", "a_node", "others"),
    [
        pytest.param(asks(GPU, 1), has(GPU, 1), [], id="1 of 1"),
        pytest.param(asks(GPU, 0), node({"pods": 1}), [], id="0 of an absent name"),
        pytest.param(asks(GPU, "3000m"), has(GPU, 3), [], id="3000m of 3"),
        pytest.param(asks(GPU, 3), has(GPU, "3000m"), [], id="3 of 3000m"),
        pytest.param(asks(GPU, 3), has(GPU, "2500m"), [], id="3 of 2500m, which is rounded up"),
        pytest.param(
            asks("foo.kubernetes.io/x", "500m"), has("foo.kubernetes.io/x", 1), [], id="half of a native name"
        ),
        pytest.param(asks("foo", 9), node({"pods": 1}), [], id="a name the scheduler does not know"),
        pytest.param(asks("storage", 9), node({"pods": 1}), [], id="storage"),
        pytest.param(asks(f"requests.{GPU}", 9), node({"pods": 1}), [], id="a quota's name"),
        pytest.param(asks(GPU, "-1"), node({"pods": 1}), [], id="less than nothing"),
        pytest.param(asks(GPU, 1), node({"pods": 9}, {GPU: 1, "pods": 9}), [], id="allocatable above capacity"),
        pytest.param(asks(GPU, "10E"), has(GPU, "10E"), [], id="10E of 10E, where Kubernetes wraps"),
    ],
)
def test_it_fits(a_pod: Pod, a_node: Node, others: list[Pod]) -> None:
    assert find_shortfalls(a_pod, a_node, others) == ()


@pytest.mark.parametrize(
    ("a_pod", "a_node", "others", "expected"),
    [
        pytest.param(asks(GPU, 2), has(GPU, 1), [], lacks(GPU, 2, 0, 1), id="2 of 1: never"),
        pytest.param(asks(GPU, 1), has(GPU, 1), [asks(GPU, 1)], lacks(GPU, 1, 1, 1), id="1 of 1, 1 used: not now"),
        pytest.param(
            asks(GPU, 1), node({GPU: 100}, {"pods": 10}), [], lacks(GPU, 1, 0, 0), id="capacity is not looked at"
        ),
        pytest.param(
            asks("foo.kubernetes.io/x", "500m"),
            has("foo.kubernetes.io/x", 1),
            [asks("foo.kubernetes.io/x", "500m")],
            lacks("foo.kubernetes.io/x", 1, 1, 1),
            id="two halves of 1 count 1 each",
        ),
        pytest.param(asks(OPAQUE, 2), has(OPAQUE, 1), [], lacks(OPAQUE, 2, 0, 1), id="an opaque name"),
        pytest.param(
            asks("hugepages-2Mi", "4Mi"),
            has("hugepages-2Mi", "2Mi"),
            [],
            lacks("hugepages-2Mi", 4194304, 0, 2097152),
            id="huge pages",
        ),
        pytest.param(
            asks("attachable-volumes-x", 4),
            has("attachable-volumes-x", 2),
            [],
            lacks("attachable-volumes-x", 4, 0, 2),
            id="volumes",
        ),
        pytest.param(
            asks("cpu", "1500u"), has("cpu", "1m"), [], lacks("cpu", 2, 0, 1), id="cpu in thousandths, rounded up"
        ),
        pytest.param(
            asks(GPU, "10E"), has(GPU, 1), [], lacks(GPU, 10**19, 0, 1), id="10E of 1, where Kubernetes wraps"
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), container("b", {GPU: 2}), initContainers=[container("i", {GPU: 4})]),
            has(GPU, 3),
            [],
            lacks(GPU, 4, 0, 3),
            id="an init step of 4",
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), initContainers=[sidecar("s", {GPU: 2}), container("i", {GPU: 3})]),
            has(GPU, 4),
            [],
            lacks(GPU, 5, 0, 4),
            id="a sidecar beneath an init step",
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), overhead={GPU: 1}), has(GPU, 1), [], lacks(GPU, 2, 0, 1), id="overhead"
        ),
        pytest.param(
            pod(container("a", {"cpu": 1}), resources={"requests": {"cpu": 3}}),
            has("cpu", 2),
            [],
            lacks("cpu", 3000, 0, 2000),
            id="the pod level",
        ),
        pytest.param(
            asks("cpu", 1),
            has("cpu", 3),
            [
                pod(
                    container("a", {"cpu": 1}),
                    status={"containerStatuses": [running("a", resources={"requests": {"cpu": "2500m"}})]},
                )
            ],
            lacks("cpu", 1000, 2500, 3000),
            id="a resized neighbour counts with what it has",
        ),
        pytest.param(
            pod(
                container("a", {"cpu": 1}),
                status={"containerStatuses": [running("a", resources={"requests": {"cpu": 9}})]},
            ),
            has("cpu", "500m"),
            [],
            lacks("cpu", 1000, 0, 500),
            id="the pod to place is taken by its spec",
        ),
    ],
)
def test_it_does_not_fit(a_pod: Pod, a_node: Node, others: list[Pod], expected: Shortfall) -> None:
    assert find_shortfalls(a_pod, a_node, others) == (expected,)


def test_the_number_of_pods_is_never_out_of_reach() -> None:
    (found,) = find_shortfalls(pod(container("a")), node({"pods": 0}), [])
    assert found == Shortfall("pods", 1, 0, 0, unresolvable=False)
    assert found.reason == "Too many pods"


def test_everything_that_lacks_is_said() -> None:
    full = find_shortfalls(
        pod(container("a", {"cpu": 2, "memory": 5, GPU: 2})),
        node({"pods": 1, "cpu": 1, "memory": 5, GPU: 1}),
        [pod(container("b"))],
    )
    assert [each.reason for each in full] == ["Too many pods", "Insufficient cpu", f"Insufficient {GPU}"]


def test_a_node_that_says_nothing_has_nothing() -> None:
    assert [each.resource for each in find_shortfalls(asks(GPU, 1), Node(), [])] == ["pods", GPU]
