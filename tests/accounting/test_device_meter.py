"""The amounts of allocated devices: of whole, shared and partitioned ones, known, unknown and undecided."""

import json
from typing import Any

import pytest

from tallygate.accounting.devices.device_meter import (
    AllocatedDevice,
    DeviceId,
    DeviceMeter,
    KnownDevice,
    UndecidedDeviceError,
    count_devices,
)

DRIVER = "gpu.example.com"
H100 = f'device.attributes["{DRIVER}"].model == "h100"'
MODEL: Any = {"attributes": {"model": {"string": "h100"}}}
SHARED = (("memory", "8Gi"),)
GIB = 1 << 30


def publish(**content: Any) -> KnownDevice:
    """Return a published device."""
    return KnownDevice(json.dumps({"name": "gpu-0", **content}).encode(), is_published=True)


def device(consumed: tuple[tuple[str, str], ...] = ()) -> AllocatedDevice:
    """Return an allocated device that may be shared."""
    return AllocatedDevice(DeviceId(DRIVER, "node-1", "gpu-0"), consumed)


def capacity(**quantities: str) -> Any:
    """Return a capacity by name; two underscores stand for the end of a domain."""
    return {"capacity": {name.replace("__", "/"): {"value": text} for name, text in quantities.items()}}


def counters(*quantities: str) -> Any:
    """Return the memory that a partition consumes of each of several counter sets."""
    return {"consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": each}}} for each in quantities]}


_OWN = {f"{DRIVER}/memory": {"value": "3Gi"}}
_FOREIGN = {"other.example.com/memory": {"value": "3Gi"}}
_AMOUNTS: dict[str, tuple[str, str, Any, tuple[tuple[str, str], ...], int | None]] = {
    "a device that matches counts once": (H100, "", MODEL, (), 1),
    "a device of another model counts nothing": (H100, "", {"attributes": {"model": {"string": "t4"}}}, (), 0),
    "a shared device that matches counts once for each claim": (H100, "", MODEL, SHARED, 1),
    "a whole device counts its capacity": ("", "memory", capacity(memory="80Gi"), (), 80 * GIB),
    "a capacity with the domain of the driver is the same": ("", "memory", {"capacity": _OWN}, (), 3 * GIB),
    "a capacity of another domain is another": ("", "memory", {"capacity": _FOREIGN}, (), 0),
    "a name with the domain of the driver has the capacity without it": (
        "",
        f"{DRIVER}/memory",
        capacity(memory="80Gi"),
        (),
        80 * GIB,
    ),
    "a name with another domain has that capacity": (
        "",
        "other.example.com/memory",
        {"capacity": _FOREIGN},
        (),
        3 * GIB,
    ),
    "a shared device counts the consumed part": ("", "memory", capacity(memory="80Gi"), SHARED, 8 * GIB),
    "a consumed part of nothing counts nothing": ("", "memory", capacity(memory="8Gi"), (("memory", "0"),), 0),
    "a partition counts the counters of all sets": ("", "memory", counters("10Gi", "1Gi"), (), 11 * GIB),
    "a device without the capacity counts nothing": ("", "memory", MODEL, (), 0),
    "a fraction is rounded up": ("", "memory", capacity(memory="1500m"), (), 2),
    "a sum counts selected devices only": (
        H100,
        "memory",
        {**capacity(memory="8Gi"), "attributes": {"model": {"string": "t4"}}},
        (),
        0,
    ),
    "an undecided device without a former amount counts": (H100, "", {}, (), 1),
    "an undecided device has no known sum": (H100, "memory", capacity(memory="8Gi"), (), None),
    "the consumed part of an undecided device counts": (H100, "memory", capacity(memory="80Gi"), SHARED, 8 * GIB),
    "an invalid capacity has no known sum": ("", "memory", capacity(memory="much"), (), None),
}


@pytest.mark.parametrize("sentence", _AMOUNTS)
def test_for_a_count(sentence: str) -> None:
    selector, sum_name, content, consumed, expected = _AMOUNTS[sentence]
    assert DeviceMeter(selector, sum_name).compute_amount(device(consumed), publish(**content)) == expected


_UNKNOWN = {
    "a count takes an unknown device for a selected one": (H100, "", (), 1),
    "a sum has no amount of an unknown device": ("", "memory", (), None),
    "a sum has the consumed part of an unknown device": ("", "memory", SHARED, 8 * GIB),
}


@pytest.mark.parametrize("sentence", _UNKNOWN)
def test_for_an_unknown_device(sentence: str) -> None:
    selector, sum_name, consumed, expected = _UNKNOWN[sentence]
    assert DeviceMeter(selector, sum_name).compute_amount(device(consumed), None) == expected


_UNDECIDED: dict[str, tuple[str, str, KnownDevice | None, str]] = {
    "no slice publishes it": (H100, "", None, "no ResourceSlice that this replica has seen publishes device"),
    "a slice published it before": (H100, "", publish(**MODEL)._replace(is_published=False), "no ResourceSlice"),
    "its expression fails": (H100, "", publish(), "gpu.example.com/node-1/gpu-0 is undecided: no such key"),
    "its capacity is invalid": ("", "memory", publish(**capacity(memory="much")), "is undecided"),
    "it is not a device": ("", "memory", KnownDevice(b'{"capacity": 1}', is_published=True), "is undecided"),
}


@pytest.mark.parametrize("reason", _UNDECIDED)
def test_no_device_is_allocated_if(reason: str) -> None:
    selector, sum_name, found, message = _UNDECIDED[reason]
    with pytest.raises(UndecidedDeviceError, match=message):
        DeviceMeter(selector, sum_name).require_amount(device(), found)


def test_an_undecided_device_keeps_the_amount_that_it_had() -> None:
    meter = DeviceMeter(H100, "memory")
    assert meter.compute_amount(device(), publish(**MODEL, **capacity(memory="8Gi"))) == 8 * GIB
    assert meter.compute_amount(device(), publish(**capacity(memory="80Gi"))) == 8 * GIB
    with pytest.raises(UndecidedDeviceError):
        meter.require_amount(device(), publish(**capacity(memory="80Gi")))
    assert meter.compute_amount(device(), publish(**MODEL, **capacity(memory="80Gi"))) == 80 * GIB


def test_the_amount_of_a_ledger_counts_only_while_a_device_is_unknown() -> None:
    meters = {"h100": DeviceMeter(H100, "")}
    kept = {"h100": 0}
    assert count_devices((device(),), meters, lambda _: None, kept).amounts == {"h100": 0}
    assert count_devices((device(),), meters, lambda _: publish(**MODEL), kept).amounts == {"h100": 1}
