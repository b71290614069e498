"""The fit of a pod on a node: the scheduler's arithmetic, row by row."""

from typing import Any

import pytest

from tallygate.accounting.node_fit import Shortfall, find_shortfalls
from tallygate.objects.core import Node, Pod
from tests.accounting.objects import container, container_status, node, pod, sidecar

GPU = "example.com/gpu"
OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-x"


def create_pod(name: str, quantity: Any) -> Pod:
    return pod(container("a", {name: quantity}))


def create_node(name: str, quantity: Any, pods: Any = 10) -> Node:
    return node({name: quantity, "pods": pods})


def create_shortfall(name: str, requested: int, used: int, capacity: int) -> Shortfall:
    return Shortfall(name, requested, used, capacity, unresolvable=requested > capacity)


@pytest.mark.parametrize(
    ("a_pod", "a_node", "others"),
    [
        pytest.param(create_pod(GPU, 1), create_node(GPU, 1), [], id="1 of 1"),
        pytest.param(create_pod(GPU, 0), node({"pods": 1}), [], id="0 of an absent name"),
        pytest.param(create_pod(GPU, "3000m"), create_node(GPU, 3), [], id="3000m of 3"),
        pytest.param(create_pod(GPU, 3), create_node(GPU, "3000m"), [], id="3 of 3000m"),
        pytest.param(create_pod(GPU, 3), create_node(GPU, "2500m"), [], id="3 of 2500m, which is rounded up"),
        pytest.param(
            create_pod("foo.kubernetes.io/x", "500m"),
            create_node("foo.kubernetes.io/x", 1),
            [],
            id="half of a native name",
        ),
        pytest.param(create_pod("foo", 9), node({"pods": 1}), [], id="a name the scheduler does not know"),
        pytest.param(create_pod("storage", 9), node({"pods": 1}), [], id="storage"),
        pytest.param(create_pod(f"requests.{GPU}", 9), node({"pods": 1}), [], id="a quota's name"),
        pytest.param(create_pod(GPU, "-1"), node({"pods": 1}), [], id="a negative request"),
        pytest.param(create_pod(GPU, 1), node({"pods": 9}, {GPU: 1, "pods": 9}), [], id="allocatable above capacity"),
        pytest.param(create_pod(GPU, "10E"), create_node(GPU, "10E"), [], id="10E of 10E, where Kubernetes wraps"),
    ],
)
def test_it_fits(a_pod: Pod, a_node: Node, others: list[Pod]) -> None:
    assert find_shortfalls(a_pod, a_node, others) == ()


@pytest.mark.parametrize(
    ("a_pod", "a_node", "others", "expected"),
    [
        pytest.param(create_pod(GPU, 2), create_node(GPU, 1), [], create_shortfall(GPU, 2, 0, 1), id="2 of 1: never"),
        pytest.param(
            create_pod(GPU, 1),
            create_node(GPU, 1),
            [create_pod(GPU, 1)],
            create_shortfall(GPU, 1, 1, 1),
            id="1 of 1, 1 used: not now",
        ),
        pytest.param(
            create_pod(GPU, 1),
            node({GPU: 100}, {"pods": 10}),
            [],
            create_shortfall(GPU, 1, 0, 0),
            id="capacity does not count",
        ),
        pytest.param(
            create_pod("foo.kubernetes.io/x", "500m"),
            create_node("foo.kubernetes.io/x", 1),
            [create_pod("foo.kubernetes.io/x", "500m")],
            create_shortfall("foo.kubernetes.io/x", 1, 1, 1),
            id="two halves of 1 count 1 each",
        ),
        pytest.param(
            create_pod(OPAQUE, 2), create_node(OPAQUE, 1), [], create_shortfall(OPAQUE, 2, 0, 1), id="an opaque name"
        ),
        pytest.param(
            create_pod("hugepages-2Mi", "4Mi"),
            create_node("hugepages-2Mi", "2Mi"),
            [],
            create_shortfall("hugepages-2Mi", 4194304, 0, 2097152),
            id="huge pages",
        ),
        pytest.param(
            create_pod("attachable-volumes-x", 4),
            create_node("attachable-volumes-x", 2),
            [],
            create_shortfall("attachable-volumes-x", 4, 0, 2),
            id="volumes",
        ),
        pytest.param(
            create_pod("cpu", "1500u"),
            create_node("cpu", "1m"),
            [],
            create_shortfall("cpu", 2, 0, 1),
            id="cpu in thousandths, rounded up",
        ),
        pytest.param(
            create_pod(GPU, "10E"),
            create_node(GPU, 1),
            [],
            create_shortfall(GPU, 10**19, 0, 1),
            id="10E of 1, where Kubernetes wraps",
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), container("b", {GPU: 2}), initContainers=[container("i", {GPU: 4})]),
            create_node(GPU, 3),
            [],
            create_shortfall(GPU, 4, 0, 3),
            id="an init step of 4",
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), initContainers=[sidecar("s", {GPU: 2}), container("i", {GPU: 3})]),
            create_node(GPU, 4),
            [],
            create_shortfall(GPU, 5, 0, 4),
            id="a sidecar beneath an init step",
        ),
        pytest.param(
            pod(container("a", {GPU: 1}), overhead={GPU: 1}),
            create_node(GPU, 1),
            [],
            create_shortfall(GPU, 2, 0, 1),
            id="overhead",
        ),
        pytest.param(
            pod(container("a", {"cpu": 1}), resources={"requests": {"cpu": 3}}),
            create_node("cpu", 2),
            [],
            create_shortfall("cpu", 3000, 0, 2000),
            id="the pod level",
        ),
        pytest.param(
            create_pod("cpu", 1),
            create_node("cpu", 3),
            [
                pod(
                    container("a", {"cpu": 1}),
                    status={"containerStatuses": [container_status("a", resources={"requests": {"cpu": "2500m"}})]},
                )
            ],
            create_shortfall("cpu", 1000, 2500, 3000),
            id="a resized pod on the node counts with its actual amount",
        ),
        pytest.param(
            pod(
                container("a", {"cpu": 1}),
                status={"containerStatuses": [container_status("a", resources={"requests": {"cpu": 9}})]},
            ),
            create_node("cpu", "500m"),
            [],
            create_shortfall("cpu", 1000, 0, 500),
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


def test_every_shortfall_is_reported() -> None:
    full = find_shortfalls(
        pod(container("a", {"cpu": 2, "memory": 5, GPU: 2})),
        node({"pods": 1, "cpu": 1, "memory": 5, GPU: 1}),
        [pod(container("b"))],
    )
    assert [each.reason for each in full] == ["Too many pods", "Insufficient cpu", f"Insufficient {GPU}"]


def test_a_node_without_a_status_has_no_resources() -> None:
    assert [each.resource for each in find_shortfalls(create_pod(GPU, 1), Node(), [])] == ["pods", GPU]
