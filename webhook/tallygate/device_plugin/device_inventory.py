"""The inventory of one resource: the devices that were found, their health, and the list for the kubelet.

IDs depend on the configuration and on paths only. A plugin that starts again has the same IDs, by which the kubelet
remembers the allocations of running pods.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tallygate.device_plugin.device_config import MAX_DEVICES, REPLICA_MARK, DeviceResource
from tallygate.device_plugin.health_transitions import HealthResult, HealthState, record_result

MAX_ID_LENGTH: Final = 56
"""The length of an ID without the mark and number of a replica: the kubelet's API documents 63."""

MISSING_SECONDS: Final = 3600.0
"""The time for which a device that a glob found before is published as unhealthy.

The kubelet reports a device that left the list as healthy in the status of the pod that has it.
"""

DEVICE_ID: Final = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?")
_NOT_IN_ID = re.compile(r"[^-_.A-Za-z0-9]+")
_HASH_LENGTH = 10


def create_device_id(path: str) -> str:
    """Return the ID of a device that has only a path: the name of a file in /dev, else a name with a hash."""
    name = path.removeprefix("/dev/")
    if path.startswith("/dev/") and DEVICE_ID.fullmatch(name) and len(name) <= MAX_ID_LENGTH:
        return name
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:_HASH_LENGTH]
    readable = _NOT_IN_ID.sub("-", name)[: MAX_ID_LENGTH - _HASH_LENGTH - 1].strip("-_.")
    return f"{readable}-{digest}" if readable else digest


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device of the configuration, or of a file that a glob matches; `path` is "" for a device without a file.

    `problem` is the reason that no container can have its device node, "" without one.
    """

    device_id: str
    path: str = ""
    numa: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TrackedDevice:
    """A device with its health; `missing_since` is the time at which a glob no longer matched its file."""

    found: FoundDevice
    health: HealthState
    missing_since: float | None = None

    def find_problem(self) -> str:
        """Return the reason that the device is unhealthy, "" if it is healthy."""
        return self.found.problem or ("" if self.health.is_healthy else self.health.reason)


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """One entry of the kubelet's list: a device, or one replica of a shared one."""

    offered_id: str
    device: FoundDevice
    problem: str = ""


Inventory = Mapping[str, TrackedDevice]
"""The tracked devices of one resource by ID, without marks of replicas."""


def observe_devices(
    inventory: Inventory, found: Sequence[FoundDevice], resource: DeviceResource, now: float
) -> dict[str, TrackedDevice]:
    """Return the inventory after the devices were looked for; of two devices with one ID the first counts."""
    first_health = HealthState() if resource.health else HealthState(is_healthy=True, reason="")
    observed: dict[str, TrackedDevice] = {}
    for device in found:
        known = inventory.get(device.device_id)
        observed.setdefault(device.device_id, TrackedDevice(device, known.health if known else first_health))
    for device_id, known in inventory.items():
        since = now if known.missing_since is None else known.missing_since
        if device_id not in observed and now - since < MISSING_SECONDS:
            missing = replace(known.found, problem=f"{known.found.path} does not exist now")
            observed[device_id] = replace(known, found=missing, missing_since=since)
    return dict(sorted(observed.items())[: MAX_DEVICES // resource.replicas])


def record_check(inventory: Inventory, device_id: str, result: HealthResult, resource: DeviceResource) -> Inventory:
    """Return the inventory after the check of a device, which may have left it meanwhile."""
    known = inventory.get(device_id)
    if known is None or resource.health is None:
        return inventory
    return {**inventory, device_id: replace(known, health=record_result(known.health, result, resource.health))}


def list_offered(inventory: Inventory, resource: DeviceResource) -> tuple[OfferedDevice, ...]:
    """Return the list for the kubelet, sorted by device and replica."""
    return tuple(
        OfferedDevice(offered_id, tracked.found, tracked.find_problem())
        for device_id, tracked in sorted(inventory.items())
        for offered_id in _list_offered_ids(device_id, resource.replicas)
    )


def _list_offered_ids(device_id: str, replicas: int) -> Iterable[str]:
    """Return the ID, or one ID for each replica of a shared device."""
    return [device_id] if replicas == 1 else [f"{device_id}{REPLICA_MARK}{number}" for number in range(replicas)]
