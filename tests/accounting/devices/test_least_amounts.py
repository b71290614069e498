"""The least amounts of claims are lower bounds: no allocation that a plain enumeration finds counts less."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.devices.device_meter import DeviceMeter
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.device_store import DeviceStore
from tests.accounting.claims import Object, claim_object, exactly
from tests.accounting.devices.enumeration import (
    MODELS,
    UNDECIDED,
    claims,
    clusters,
    enumerate_allocations,
    select_model,
)
from tests.state.informers.slices import DRIVER, create_device, create_slice, slice_line, slice_page

GIB = 1 << 30
CLASSES = {"all": (), "some": (f'device.attributes["{DRIVER}"].model != "c"',)}
METERS = {
    "memory": DeviceMeter("", "memory"),
    "count": DeviceMeter("true", ""),
    "b": DeviceMeter(f'device.attributes["{DRIVER}"].model == "b"', ""),
    "b-memory": DeviceMeter(f'device.attributes["{DRIVER}"].model == "b"', f"{DRIVER}/memory"),
}


def find_least(
    claim: Object, *slices: Object, classes: dict[str, tuple[str, ...]] | None = None, review_count: int = 1
) -> dict[str, int]:
    """Return the least amounts of a claim in a cluster with these slices."""
    store = DeviceStore()
    store.apply(slice_page(9, *slices))
    least = LeastAmounts(store.list_slices, (CLASSES if classes is None else classes).get)
    decoded = msgspec.json.decode(json.dumps(claim), type=ResourceClaim)
    found: dict[str, int] = {}
    for _ in range(review_count):
        found = dict(least.start_review().compute([decoded], METERS))
    return found


@given(clusters(), claims())
def test_no_allocation_counts_less(slices: list[Object], claim: Object) -> None:
    least = find_least(claim, *slices)
    for allocation in enumerate_allocations(claim, slices):
        for name, meter in METERS.items():
            assert least.get(name, 0) <= allocation.count(meter), (name, allocation)


@st.composite
def _plain_claims(draw: st.DrawFn) -> Object:
    """Return a claim with one request that does not refer to capacities, modes or alternatives."""
    selectors = draw(st.lists(st.sampled_from([select_model(each) for each in MODELS]), max_size=1))
    device_class = draw(st.sampled_from(("all", "some")))
    return claim_object(exactly(draw(st.integers(1, 2)), device_class, selectors=selectors))


@given(clusters(), _plain_claims())
def test_the_least_of_one_request_is_the_least_allocation_where_a_node_reaches_all_devices(
    slices: list[Object], claim: Object
) -> None:
    for each in slices:
        each["spec"] = {key: each["spec"][key] for key in ("driver", "pool", "devices")} | {"allNodes": True}
    allocations = list(enumerate_allocations(claim, slices))
    least = find_least(claim, *slices)
    for name, meter in METERS.items():
        assert least.get(name, 0) == min((each.count(meter) for each in allocations), default=0), name


def _create_pool(name: str, *memories: str, model: str = "a", **spec: Any) -> Object:
    """Return the slice of a pool of one node, with devices of these amounts of memory."""
    devices = [create_device(f"d{index}", model, memory) for index, memory in enumerate(memories)]
    made = create_slice(5, *devices, name=name, pool=name)
    made["spec"] |= spec
    return made


def _create_shared(policy: Object, **more: Any) -> Object:
    capacity = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    device = {"name": "d0", "attributes": {"model": {"string": "a"}}, "capacity": capacity} | more
    return create_slice(5, device | {"allowMultipleAllocations": True}, name="shared", pool="shared")


def _request_shared(quantity: str) -> Object:
    return exactly(1, "all", capacity={"requests": {"memory": quantity}})


_ALL = {"allocationMode": "All"}
_LARGE, _SMALL = _create_pool("large", "80Gi", "80Gi"), _create_pool("small", "10Gi", "20Gi", "40Gi")
_OTHER_MODEL = _create_pool("other", "5Gi", model="b")
_PER_DEVICE = _create_pool("each", "30Gi", "40Gi", perDeviceNodeSelection=True)
_RANGE = {"default": "8Gi", "validRange": {"min": "4Gi", "step": "4Gi"}}
_VALUES = {"default": "8Gi", "validValues": ["8Gi", "16Gi", "32Gi"]}

_MIXED = create_slice(
    5,
    *(create_device(f"d{index}", "a", "20Gi") for index in range(2)),
    *({**create_device(f"s{index}", "a", "20Gi"), "attributes": {"size": {"int": 1}}} for index in range(2)),
)
"""A slice of which one half has the attribute `size`."""


def _prefer(*alternatives: Object) -> Object:
    return {"name": "gpu", "firstAvailable": [each["exactly"] | {"name": "x"} for each in alternatives]}


_MEMORIES: dict[str, tuple[list[Object], list[Object], int]] = {
    "one device is the smallest": ([exactly(1, "all")], [_LARGE, _SMALL], 10),
    "two devices are the two smallest": ([exactly(2, "all")], [_LARGE, _SMALL], 30),
    "requests are added": ([exactly(1, "all"), exactly(1, "all", "b")], [_SMALL], 20),
    "a selector leaves devices out": (
        [exactly(1, "all", selectors=[select_model("a")])],
        [_SMALL, _OTHER_MODEL],
        10,
    ),
    "an undecided selector leaves none out": ([exactly(1, "all", selectors=[UNDECIDED])], [_SMALL, _OTHER_MODEL], 5),
    "a selector with a mistake leaves none out": (
        [exactly(1, "all", selectors=[{"cel": {"expression": "device."}}])],
        [_SMALL],
        10,
    ),
    "a selector of an unknown kind leaves none out": ([exactly(1, "all", selectors=[{}])], [_SMALL], 10),
    "the selectors of the class apply": ([exactly(1, "some")], [_create_pool("c", "1Gi", model="c"), _LARGE], 80),
    "more devices than are published are unknown": ([exactly(6, "all")], [_LARGE, _SMALL], 0),
    "a model that is not published is unknown": ([exactly(1, "all", selectors=[select_model("c")])], [_LARGE], 0),
    "an unknown class is unknown": ([exactly(1, "missing")], [_LARGE], 0),
    "an unknown request counts nothing beside another": ([exactly(1, "missing"), exactly(1, "all")], [_LARGE], 80),
    "admin access counts nothing": ([exactly(1, "all", adminAccess=True)], [_LARGE], 0),
    "a claim without requests counts nothing": ([], [_LARGE], 0),
    "all devices are those of the smallest slice": ([exactly(None, "all", **_ALL)], [_LARGE, _SMALL], 70),
    "all devices are one where each has nodes of its own": ([exactly(None, "all", **_ALL)], [_LARGE, _PER_DEVICE], 30),
    "all devices that are only possible may be one": (
        [exactly(None, "all", selectors=[UNDECIDED], **_ALL)],
        [_SMALL],
        10,
    ),
    "all devices are at least those that surely match": (
        [exactly(None, "all", selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].size == 1'}}], **_ALL)],
        [_MIXED],
        40,
    ),
    "all devices may lack those without a requested capacity": (
        [exactly(None, "all", capacity={"requests": {"memory": "1Gi"}}, **_ALL)],
        [_SMALL],
        10,
    ),
    "all devices with none that matches are unknown": (
        [exactly(None, "all", selectors=[select_model("c")], **_ALL)],
        [_SMALL],
        0,
    ),
    "the cheapest alternative counts": ([_prefer(exactly(1, "all"), exactly(2, "all"))], [_LARGE], 80),
    "an unknown alternative may be the cheapest": ([_prefer(exactly(1, "all"), exactly(1, "missing"))], [_LARGE], 0),
    "a shared device counts the default of its policy": ([exactly(1, "all")], [_create_shared(_RANGE)], 8),
    "a shared device without a policy counts as a whole": ([exactly(1, "all")], [_create_shared({})], 80),
    "a request below the range counts its minimum": ([_request_shared("1Gi")], [_create_shared(_RANGE)], 4),
    "a request within the range is rounded up to a step": ([_request_shared("5Gi")], [_create_shared(_RANGE)], 8),
    "a request counts the next valid value": ([_request_shared("9Gi")], [_create_shared(_VALUES)], 16),
    "a request above the valid values counts as it is": ([_request_shared("33Gi")], [_create_shared(_VALUES)], 33),
    "a request without a policy counts as it is": ([_request_shared("3Gi")], [_create_shared({})], 3),
    "a request above the device counts at most the device": ([_request_shared("90Gi")], [_create_shared({})], 80),
    "a default with a mistake counts nothing": ([exactly(1, "all")], [_create_shared({"default": "many"})], 0),
    "a device of an unknown form counts nothing": ([exactly(1, "all")], [_create_shared({}, attributes=[])], 0),
    "the newest generation counts": (
        [exactly(1, "all")],
        [create_slice(5, create_device("d0", "a", "60Gi"), name="new", pool="large", generation=2), _LARGE],
        60,
    ),
}


@pytest.mark.parametrize(("requests", "slices", "expected"), _MEMORIES.values(), ids=_MEMORIES)
def test_least_memory(requests: list[Object], slices: list[Object], expected: int) -> None:
    assert find_least(claim_object(*requests), *slices).get("memory", 0) == expected * GIB


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        pytest.param("5200m", 7, id="6.5 by thousandths, and 8 by whole units"),
        pytest.param("4100m", 5, id="6.5 by thousandths, and 5 by whole units"),
    ],
)
def test_a_step_with_a_fraction_counts_the_least_of_both_ways_to_round(requested: str, expected: int) -> None:
    policy = {"default": "1500m", "validRange": {"min": "1500m", "step": "2500m"}}
    assert find_least(claim_object(_request_shared(requested)), _create_shared(policy))["memory"] == expected


def test_nothing_is_known_while_a_pool_is_incomplete() -> None:
    incomplete = _create_pool("next", "1Gi", pool={"name": "next", "generation": 2, "resourceSliceCount": 2})
    assert find_least(claim_object(exactly(1, "all")), _LARGE, incomplete) == {}


def test_nothing_is_known_without_slices() -> None:
    assert find_least(claim_object(exactly(1, "all"))) == {}
    assert LeastAmounts(DeviceStore().list_slices, CLASSES.get).start_review().compute([], METERS) == {}


def test_a_changed_slice_changes_the_least() -> None:
    store = DeviceStore()
    store.apply(slice_page(9, _LARGE, _SMALL))
    least = LeastAmounts(store.list_slices, CLASSES.get)
    claim = msgspec.json.decode(json.dumps(claim_object(exactly(1, "all"))), type=ResourceClaim)
    assert least.start_review().compute([claim], METERS)["memory"] == 10 * GIB
    changed = _create_pool("small", "15Gi", "20Gi", "40Gi")
    changed["metadata"]["resourceVersion"] = "10"
    store.apply(slice_line("MODIFIED", changed))
    assert least.start_review().compute([claim, claim], METERS)["memory"] == 30 * GIB
    changed["metadata"]["resourceVersion"] = "11"
    store.apply(slice_line("DELETED", changed))
    assert least.start_review().compute([claim], METERS)["memory"] == 80 * GIB


def _create_large_cluster(count: int) -> list[Object]:
    return [_create_pool(f"n{index}", *["80Gi"] * 8) for index in range(count)]


def test_beyond_the_limit_of_work_nothing_is_known_and_a_later_review_goes_on() -> None:
    claim = claim_object(exactly(1, "all", selectors=[select_model("b")]))
    cluster = [*_create_large_cluster(300), _create_pool("rare", "90Gi", model="b")]
    assert find_least(claim, *cluster) == {}
    assert find_least(claim, *cluster, review_count=2)["memory"] == 90 * GIB


def test_an_expression_that_costs_more_than_the_limit_is_not_evaluated() -> None:
    loop = "true"
    for name in "abcd":
        loop = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({name}, {loop})"
    claim = claim_object(exactly(1, "all", selectors=[{"cel": {"expression": loop}}]))
    assert find_least(claim, _LARGE, review_count=3) == {}


def test_a_long_expression_leaves_no_device_out() -> None:
    text = " && ".join(["device.driver == 'd'"] * 200)
    claim = claim_object(exactly(1, "all", selectors=[{"cel": {"expression": text}}]))
    assert find_least(claim, _LARGE)["memory"] == 80 * GIB


def test_results_of_many_expressions_are_not_kept_for_ever() -> None:
    store = DeviceStore()
    store.apply(slice_page(9, _LARGE))
    least = LeastAmounts(store.list_slices, CLASSES.get)
    for number in range(200):
        selector = {"cel": {"expression": f"{number} >= 0"}}
        claim = msgspec.json.decode(
            json.dumps(claim_object(exactly(1, "all", selectors=[selector]))), type=ResourceClaim
        )
        assert least.start_review().compute([claim], METERS)["memory"] == 80 * GIB
    slices = store.list_slices()
    assert slices is not None
    kept = [least.get_matches(f"{number} >= 0", len(slices), is_own=True) for number in range(200)]
    assert sum(map(bool, kept)) <= 64
