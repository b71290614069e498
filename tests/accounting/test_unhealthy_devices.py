"""The unhealthy devices of nodes: the difference of the capacity and the allocatable amount of extended resources."""

import msgspec
import pytest

from tallygate.accounting.node_fit import UnhealthyDevices, count_unhealthy, format_unhealthy
from tallygate.objects.core import Node

GPU = "example.com/gpu"
OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-x"


@pytest.mark.parametrize(
    ("capacity", "allocatable", "unhealthy"),
    [
        pytest.param({GPU: "4"}, {GPU: "2"}, {GPU: 2}, id="the difference of an extended resource"),
        pytest.param({GPU: "4"}, {GPU: "4000m"}, {}, id="none of equal amounts"),
        pytest.param({GPU: "4"}, {"cpu": "1"}, {}, id="none of a resource that the kubelet has not seen yet"),
        pytest.param({GPU: "4"}, None, {}, id="none without allocatable amounts"),
        pytest.param({GPU: "2"}, {GPU: "4"}, {}, id="none where more is allocatable"),
        pytest.param({"cpu": "4", OPAQUE: "3"}, {"cpu": "3", OPAQUE: "1"}, {}, id="none of a name of Kubernetes"),
        pytest.param({GPU: "four"}, {GPU: "4"}, {}, id="none of a quantity that cannot be read"),
    ],
)
def test_the_unhealthy_devices_of_a_node(
    capacity: dict[str, str], allocatable: dict[str, str] | None, unhealthy: dict[str, int]
) -> None:
    status = {"capacity": capacity} | ({} if allocatable is None else {"allocatable": allocatable})
    assert count_unhealthy(msgspec.json.decode(msgspec.json.encode({"status": status}), type=Node)) == unhealthy


def test_a_node_without_a_status_has_no_unhealthy_devices() -> None:
    assert count_unhealthy(Node()) == {}


def test_the_first_nodes_are_listed_and_the_others_counted() -> None:
    unhealthy = [UnhealthyDevices(f"n{number}", GPU, 1, 4) for number in range(7)]
    assert format_unhealthy([]) == ""
    assert format_unhealthy(unhealthy[:1]) == f"1 of 4 {GPU} unhealthy on n0"
    assert format_unhealthy(unhealthy) == (
        ", ".join(f"1 of 4 {GPU} unhealthy on n{number}" for number in range(5)) + ", and on 2 more"
    )
