"""The least amounts of claims are lower bounds: no allocation that a plain enumeration finds counts less.

The enumeration allocates as the scheduler does, in small drawn clusters. It compares attributes itself, without
expressions.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.webhook.accounting.devices.device_meter import AllocatedDevice, DeviceId, DeviceMeter, KnownDevice
from tallygate.webhook.accounting.devices.least_amounts import LeastAmounts
from tallygate.webhook.objects.devices import ResourceClaim
from tallygate.webhook.state.informers.device_store import DeviceStore
from tests.accounting.claims import Object, claim_object, exactly
from tests.state.informers.slices import DRIVER, create_device, create_slice, slice_line, slice_page

GIB = 1 << 30
MODELS = ("a", "b", "c")
CLASSES = {"all": (), "some": (f'device.attributes["{DRIVER}"].model != "c"',)}
METERS = {
    "memory": DeviceMeter("", "memory"),
    "count": DeviceMeter("true", ""),
    "b": DeviceMeter(f'device.attributes["{DRIVER}"].model == "b"', ""),
    "b-memory": DeviceMeter(f'device.attributes["{DRIVER}"].model == "b"', f"{DRIVER}/memory"),
}


def select_model(model: str) -> Object:
    """Return a selector of the devices of a model."""
    return {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}


UNDECIDED = {"cel": {"expression": f'device.attributes["{DRIVER}"].missing == "x"'}}


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


@dataclass(frozen=True)
class Allocation:
    """Devices of slices with the amounts that a claim consumes of shared ones."""

    parts: tuple[tuple[str, Object, tuple[tuple[str, str], ...]], ...]

    def count(self, meter: DeviceMeter) -> int:
        """Return the amount under a name of a cap."""
        total = 0
        for pool, device, consumed in self.parts:
            allocated = AllocatedDevice(DeviceId(DRIVER, pool, device["name"]), consumed)
            amount = meter.compute_amount(allocated, KnownDevice(json.dumps(device).encode(), is_published=True))
            assert amount is not None
            total += amount
        return total


def enumerate_allocations(claim: Object, slices: list[Object]) -> Iterator[Allocation]:
    """Yield every allocation of a claim on every node."""
    for node in {each["spec"].get("nodeName", "other") for each in slices}:
        devices = [
            (each["spec"]["pool"]["name"], device)
            for each in slices
            for device in each["spec"]["devices"]
            if _reaches(node, each["spec"], device)
        ]
        choices = [list(_serve(request, devices)) for request in claim["spec"]["devices"]["requests"]]
        for chosen in product(*choices):
            parts = tuple(part for each in chosen for part in each)
            whole = [(pool, device["name"]) for pool, device, consumed in parts if not consumed]
            if len(whole) == len(set(whole)):
                yield Allocation(parts)


def _reaches(node: str, spec: Object, device: Object) -> bool:
    if spec.get("perDeviceNodeSelection"):
        return bool(device.get("allNodes")) or device.get("nodeName") == node
    return bool(spec.get("allNodes")) or spec.get("nodeName") == node


def _serve(request: Object, devices: list[tuple[str, Object]]) -> Iterator[tuple[Any, ...]]:
    """Yield the devices that may serve a request, with their consumed amounts."""
    for alternative in request.get("firstAvailable") or [request["exactly"]]:
        possible = [
            (pool, device, _consume(device, alternative))
            for pool, device in devices
            if _matches(alternative, device) and _suffices(device, alternative)
        ]
        if alternative.get("allocationMode") == "All":
            if possible:
                yield tuple(possible)
        else:
            yield from combinations(possible, alternative.get("count", 1))


def _matches(alternative: Object, device: Object) -> bool:
    model = device["attributes"]["model"]["string"]
    if alternative["deviceClassName"] == "some" and model == "c":
        return False
    return all(
        each in {json.dumps(select_model(model)), json.dumps(UNDECIDED)} for each in _list_selectors(alternative)
    )


def _list_selectors(alternative: Object) -> list[str]:
    return [json.dumps(each) for each in alternative.get("selectors", ())]


def _get_requested(alternative: Object) -> Object:
    requests: Object = alternative.get("capacity", {}).get("requests", {})
    return requests


def _suffices(device: Object, alternative: Object) -> bool:
    for name, amount in _get_requested(alternative).items():
        capacity = device.get("capacity", {}).get(name)
        if capacity is None or _read(amount) > _read(capacity["value"]):
            return False
    return all(
        _read(amount) <= _read(device["capacity"][name]["value"])
        and _is_valid(device["capacity"][name].get("requestPolicy", {}), _read(amount))
        for name, amount in _consume(device, alternative)
    )


def _is_valid(policy: Object, consumed: int) -> bool:
    values = [_read(each) for each in policy.get("validValues", ())]
    return not values or consumed in {*values, _read(policy["default"])}


def _consume(device: Object, alternative: Object) -> tuple[tuple[str, str], ...]:
    """Return the amounts that a request consumes of a shared device."""
    if not device.get("allowMultipleAllocations"):
        return ()
    requested = _get_requested(alternative)
    return tuple(
        (name, str(_apply(capacity.get("requestPolicy", {}), requested.get(name), _read(capacity["value"]))))
        for name, capacity in device["capacity"].items()
    )


def _apply(policy: Object, requested: str | None, whole: int) -> int:
    if requested is None:
        return _read(policy["default"]) if "default" in policy else whole
    amount = _read(requested)
    if "validRange" in policy:
        least, step = _read(policy["validRange"]["min"]), int(policy["validRange"].get("step", 1))
        return least if amount <= least else least + -(-(amount - least) // step) * step
    return next((_read(each) for each in policy.get("validValues", ()) if amount <= _read(each)), amount)


def _read(quantity: str) -> int:
    return int(quantity)


_quantities = st.integers(0, 9).map(str)


@st.composite
def _policies(draw: st.DrawFn) -> Object:
    form = draw(st.sampled_from(("none", "default", "range", "values")))
    if form == "none":
        return {}
    policy: Object = {"default": draw(_quantities)}
    if form == "range":
        policy["validRange"] = {"min": draw(_quantities), "step": str(draw(st.integers(1, 4)))}
    if form == "values":
        policy["validValues"] = sorted(draw(st.lists(_quantities, min_size=1, max_size=3)), key=int)
    return {"requestPolicy": policy}


@st.composite
def _devices(draw: st.DrawFn, name: str, nodes: tuple[str, ...]) -> Object:
    model, amount = draw(st.sampled_from(MODELS)), draw(_quantities)
    device = create_device(name, model, amount)
    form = draw(st.sampled_from(("whole", "whole", "shared", "partition", "without")))
    if form == "shared":
        device["allowMultipleAllocations"] = True
        device["capacity"]["memory"] = {"value": "9", **draw(_policies())}  # enough for each default
    if form in {"partition", "without"}:
        del device["capacity"]
    if form == "partition":
        device["consumesCounters"] = [{"counterSet": "s", "counters": {"memory": {"value": amount}}}]
    place = draw(st.sampled_from((*nodes, "")))
    return device | ({"nodeName": place} if place else {"allNodes": True})


@st.composite
def _clusters(draw: st.DrawFn) -> list[Object]:
    nodes = ("n1", "n2")
    slices = []
    for index in range(draw(st.integers(1, 3))):
        devices = [draw(_devices(f"d{number}", nodes)) for number in range(draw(st.integers(0, 3)))]
        drawn = create_slice(5, *devices, name=f"s{index}", pool=f"p{index}")
        del drawn["spec"]["nodeName"]
        form = draw(st.sampled_from((*nodes, "all", "each")))
        if form == "each":
            drawn["spec"]["perDeviceNodeSelection"] = True
        elif form == "all":
            drawn["spec"]["allNodes"] = True
        else:
            drawn["spec"]["nodeName"] = form
        slices.append(drawn)
    return slices


@st.composite
def _alternatives(draw: st.DrawFn, selectors: tuple[Object, ...]) -> Object:
    request: Object = {"deviceClassName": draw(st.sampled_from(("all", "some")))}
    request["selectors"] = draw(st.lists(st.sampled_from(selectors), max_size=2))
    if draw(st.integers(0, 3)) == 0:
        request["allocationMode"] = "All"
    else:
        request["count"] = draw(st.integers(1, 2))
    if draw(st.integers(0, 3)) == 0:
        request["capacity"] = {"requests": {"memory": str(draw(st.integers(0, 12)))}}
    return request


@st.composite
def _claims(draw: st.DrawFn) -> Object:
    selectors = (*(select_model(each) for each in MODELS), UNDECIDED)
    requests: list[Object] = []
    for index in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)) == 0:
            alternatives = [draw(_alternatives(selectors)) | {"name": f"o{number}"} for number in range(2)]
            requests.append({"name": f"r{index}", "firstAvailable": alternatives})
        else:
            requests.append({"name": f"r{index}", "exactly": draw(_alternatives(selectors))})
    return claim_object(*requests)


@given(_clusters(), _claims())
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


@given(_clusters(), _plain_claims())
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
