"""Every allocation of a claim in a small drawn cluster, by plain enumeration as the scheduler allocates.

It compares attributes itself, without expressions.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from hypothesis import strategies as st

from tallygate.accounting.devices.device_meter import AllocatedDevice, DeviceId, DeviceMeter, KnownDevice
from tests.accounting.claims import Object, claim_object
from tests.state.informers.slices import DRIVER, create_device, create_slice

MODELS = ("a", "b", "c")


def select_model(model: str) -> Object:
    """Return a selector of the devices of a model."""
    return {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}


UNDECIDED = {"cel": {"expression": f'device.attributes["{DRIVER}"].missing == "x"'}}


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
def clusters(draw: st.DrawFn) -> list[Object]:
    """Return up to three slices with up to three devices each, of two nodes."""
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
def claims(draw: st.DrawFn) -> Object:
    """Return a claim with one or two requests, some of them with alternatives."""
    selectors = (*(select_model(each) for each in MODELS), UNDECIDED)
    requests: list[Object] = []
    for index in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)) == 0:
            alternatives = [draw(_alternatives(selectors)) | {"name": f"o{number}"} for number in range(2)]
            requests.append({"name": f"r{index}", "firstAvailable": alternatives})
        else:
            requests.append({"name": f"r{index}", "exactly": draw(_alternatives(selectors))})
    return claim_object(*requests)
