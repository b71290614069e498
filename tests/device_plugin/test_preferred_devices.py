"""The preferred devices: of as few NUMA nodes as possible, with those that the kubelet demands."""

from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.device_plugin.device_inventory import FoundDevice, OfferedDevice
from tallygate.device_plugin.preferred_devices import choose_devices


def _offer(nodes: Mapping[str, int | None]) -> dict[str, OfferedDevice]:
    """Return offered devices by ID; the part before `::` is the shared device."""
    return {
        each: OfferedDevice(each, FoundDevice(each.partition("::")[0], f"/dev/{each}", node))
        for each, node in nodes.items()
    }


_TWO_NODES = {"a": 0, "b": 1, "c": 1, "d": 0, "e": 1}


@pytest.mark.parametrize(
    ("nodes", "must_include", "size", "expected"),
    [
        pytest.param(_TWO_NODES, [], 2, ["a", "d"], id="the smallest node that suffices"),
        pytest.param(_TWO_NODES, [], 3, ["b", "c", "e"], id="one node before two"),
        pytest.param(_TWO_NODES, ["b"], 2, ["b", "c"], id="the node of the devices that are demanded"),
        pytest.param(_TWO_NODES, [], 4, ["a", "b", "c", "e"], id="the largest node first where none suffices"),
        pytest.param(_TWO_NODES, ["a", "b"], 2, ["a", "b"], id="no more than the size"),
        pytest.param({"a": None, "b": None, "c": 1}, [], 2, ["a", "b"], id="devices without a node stand together"),
        pytest.param({"a::0": 0, "a::1": 0, "b::0": 0}, [], 2, ["a::0", "b::0"], id="shared devices are spread"),
        pytest.param({"a::1": 0, "b::0": 0, "b::1": 0}, [], 1, ["b::0"], id="the device with most free replicas"),
        pytest.param({"a::0": 0, "a::1": 0, "b::0": 0}, ["a::0"], 2, ["a::0", "b::0"], id="beside a demanded one too"),
        pytest.param({"a": 0}, [], 3, ["a"], id="fewer if they do not suffice"),
        pytest.param({"a": 0}, [], -1, [], id="none for a negative size"),
        pytest.param({"a": 0}, ["unknown"], 1, ["a"], id="an unknown device is left out"),
    ],
)
def test_these_are_preferred(
    nodes: Mapping[str, int | None], must_include: list[str], size: int, expected: list[str]
) -> None:
    assert choose_devices(_offer(nodes), list(nodes), must_include, size) == expected


@given(st.data(), st.lists(st.sampled_from([0, 1, 2, None]), max_size=7))
def test_no_choice_has_fewer_nodes(data: st.DataObject, nodes: list[int | None]) -> None:
    offered = _offer({f"d{number}": node for number, node in enumerate(nodes)})
    must_include = data.draw(st.sets(st.sampled_from(sorted(offered)))) if offered else set()
    size = data.draw(st.integers(len(must_include), len(offered)))
    chosen = choose_devices(offered, list(offered), must_include, size)
    assert len(chosen) == size
    assert must_include <= set(chosen)
    least = min(
        len({offered[each].device.numa for each in other})
        for other in combinations(sorted(offered), size)
        if must_include <= set(other)
    )
    assert len({offered[each].device.numa for each in chosen}) == least
