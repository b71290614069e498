"""The answer to the kubelet for one container: devices in, its device nodes, mounts, environment and names of CDI out.

Texts of the configuration may have placeholders. `{id}`, `{path}` and `{index}` are those of one device; `{ids}`,
`{paths}` and `{count}` those of all devices of the container. A shared device has the ID without its replica.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallygate.device_plugin.device_config import ContainerTemplate
from tallygate.device_plugin.device_inventory import FoundDevice, OfferedDevice
from tallygate.errors import TallygateError

PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]+)\}")
DEVICE_PLACEHOLDERS: Final = ("id", "path", "index")
CONTAINER_PLACEHOLDERS: Final = ("ids", "paths", "count")


class DeviceRefusedError(TallygateError):
    """A container cannot have the devices that the kubelet names; the kubelet rejects the pod with this text."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of the host in a container."""

    path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class ContainerMount:
    """A mount of a host's path in a container."""

    path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """The additions to one container."""

    device_nodes: tuple[DeviceNode, ...]
    mounts: tuple[ContainerMount, ...]
    env: Mapping[str, str]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]


def allocate_devices(
    offered: Mapping[str, OfferedDevice], offered_ids: Iterable[str], template: ContainerTemplate
) -> ContainerAllocation:
    """Return the additions to a container for the devices of these IDs.

    Raises:
        DeviceRefusedError: if a device is not offered or is unhealthy.
    """
    devices = _select_devices(offered, offered_ids)
    shared_texts = {
        "ids": ",".join(device.device_id for device in devices),
        "paths": ",".join(device.path for device in devices if device.path),
        "count": str(len(devices)),
    }
    texts_by_device = [
        {**shared_texts, "id": device.device_id, "path": device.path, "index": str(index)}
        for index, device in enumerate(devices)
    ]
    return ContainerAllocation(
        device_nodes=tuple(
            DeviceNode(fill_text(template.path or "{path}", texts), texts["path"], template.permissions)
            for texts in texts_by_device
            if texts["path"]
        ),
        mounts=_list_mounts(template, texts_by_device),
        env={name: fill_text(text, shared_texts) for name, text in template.env.items()},
        annotations={name: fill_text(text, shared_texts) for name, text in template.annotations.items()},
        cdi_devices=tuple(
            dict.fromkeys(fill_text(name, texts) for texts in texts_by_device for name in template.cdi_devices)
        ),
    )


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders replaced; a word in braces that is no placeholder stays."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _select_devices(offered: Mapping[str, OfferedDevice], offered_ids: Iterable[str]) -> list[FoundDevice]:
    """Return each device once, in the order of the IDs as text."""
    selected: dict[str, FoundDevice] = {}
    for offered_id in sorted(set(offered_ids)):
        device = offered.get(offered_id)
        if device is None:
            raise DeviceRefusedError(f"device {offered_id!a} is not offered here; the kubelet has an old list")
        if device.problem:
            raise DeviceRefusedError(f"device {offered_id} is unhealthy: {device.problem}")
        selected[device.device.device_id] = device.device
    return list(selected.values())


def _list_mounts(
    template: ContainerTemplate, texts_by_device: Sequence[Mapping[str, str]]
) -> tuple[ContainerMount, ...]:
    """Return the mounts of all devices; a mount without placeholders is the same for each device, and stands once."""
    mounts = (
        ContainerMount(fill_text(mount.path, texts), fill_text(mount.host_path, texts), mount.read_only)
        for texts in texts_by_device
        for mount in template.mounts
    )
    return tuple(dict.fromkeys(mounts))
