"""The reason why a device is not one for a request, in words for the user who wrote the request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tallygate.accounting.allocation.allocator import Allocator
from tallygate.accounting.allocation.planned_requests import AllocationError, PlannedRequest, UndecidedAllocationError
from tallygate.accounting.allocation.published_devices import AllocatableDevice, DeviceContent
from tallygate.accounting.devices.device_values import AttributeValue

_READ_NAME: Final = re.compile(r"device\.(?:attributes|capacity)\[[^]]*\]\.\??([A-Za-z_][A-Za-z0-9_]*)")


NOT_OF_CLASS: Final = "not of class"
"""The beginning of the reason for a device of another class."""

TAINTED: Final = "has the taint"
"""The beginning of the reason for a device with a taint, which its driver or an administrator may remove."""


def find_mismatch(allocator: Allocator, request: PlannedRequest, device: AllocatableDevice) -> str:
    """Return the first reason why a request cannot have a device that is free; empty if it can."""
    content = device.content
    if not _matches(allocator, request.class_selectors, device):
        return f"{NOT_OF_CLASS} {request.class_name}"
    for text in request.selectors:
        if not _matches(allocator, (text,), device):
            values = ", ".join(_list_values(text, content))
            return f"fails selector `{text}`{f', has {values}' if values else ''}"
    for taint in content.taints:
        if not request.tolerates(taint):
            return f"{TAINTED} {taint}"
    if not allocator.consumption.fits(device.id.driver, content.capacities, request.requested):
        has = {name: content.capacities[name].value for name in request.requested if name in content.capacities}
        requested = ", ".join(f"{name} {amount}" for name, amount in sorted(request.requested.items()))
        return f"has too little capacity for {requested}: {', '.join(f'{n} {v}' for n, v in sorted(has.items()))}"
    return ""


def _matches(allocator: Allocator, selectors: tuple[str, ...], device: AllocatableDevice) -> bool:
    try:
        return allocator.selectors.match("", selectors, device)
    except (AllocationError, UndecidedAllocationError):
        return False


def _list_values(selector: str, content: DeviceContent) -> Iterator[str]:
    for name in dict.fromkeys(_READ_NAME.findall(selector)):
        for known, attribute in content.attributes.items():
            if known.rpartition("/")[2] == name:
                yield f"{name} {_format(attribute)}"
        for known, capacity in content.capacities.items():
            if known.rpartition("/")[2] == name:
                yield f"{name} {capacity.value}"


def _format(attribute: AttributeValue) -> str:
    values = (attribute.text, attribute.version, attribute.integer, attribute.boolean)
    return next((str(value) for value in values if value is not None), "another type")
