"""Conditions under which the devices of a claim are bound to a node: their driver reports them after the allocation.

A pod with such a claim waits for the conditions. A device whose binding has failed, or takes too long, is available on
no node. Source: isClaimReadyForBinding and isClaimTimeout in plugins/dynamicresources/dynamicresources.go, v1.36.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final

from tallygate.objects.devices import AllocatedDeviceStatus, DeviceResult, ResourceClaim

_TIMEOUT: Final = timedelta(seconds=600)  # DynamicResourcesBindingTimeoutDefault
_TRUE: Final = "True"


class BindingState(Enum):
    """Whether the devices of an allocated claim can be bound: `UNKNOWN` needs the time, which is not known."""

    READY = auto()
    WAITING = auto()
    FAILED = auto()
    UNKNOWN = auto()


def find_binding_state(claim: ResourceClaim, now: datetime | None) -> BindingState:
    """Return the state of a claim, ready without devices and without conditions."""
    allocation = claim.status.allocation if claim.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or ()
    states = (_find_device_state(claim, result) for result in results)
    state = next((state for state in states if state is not BindingState.READY), BindingState.READY)
    if state is not BindingState.WAITING or allocation is None or not allocation.allocation_timestamp:
        return state
    if now is None:
        return BindingState.UNKNOWN
    is_late = _read_time(allocation.allocation_timestamp) + _TIMEOUT < now
    return BindingState.FAILED if is_late else BindingState.WAITING


def _find_device_state(claim: ResourceClaim, result: DeviceResult) -> BindingState:
    if not result.binding_conditions:
        return BindingState.READY
    status = _find_status(claim, result)
    if status is None:
        return BindingState.WAITING
    true = {condition.type for condition in status.conditions or () if condition.status == _TRUE}
    if not true.isdisjoint(result.binding_failure_conditions or ()):
        return BindingState.FAILED
    return BindingState.READY if true.issuperset(result.binding_conditions) else BindingState.WAITING


def _find_status(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    """Return the first status of a device; parts of a shared device have one (getAllocatedDeviceStatus)."""
    reported = (claim.status.devices if claim.status else None) or ()
    device = result.driver, result.pool, result.device
    return next((each for each in reported if (each.driver, each.pool, each.device) == device), None)


def _read_time(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
