"""The configuration of a device plugin as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

MAX_REPLICAS: Final = 1_000
MAX_DEVICES: Final = 10_000
"""Devices of one resource with their replicas. The kubelet reads a list of at most 4 MiB."""

REPLICA_MARK: Final = "::"
"""The part between the ID of a shared device and the number of a replica. No ID contains it."""

GLOB_CHARACTERS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class DeviceSource:
    """One entry of `devices`: a path, a glob over paths, or an ID without a file.

    `device_id` is "" if the path gives it; `numa` None if sysfs has it.
    """

    device_id: str = ""
    path: str = ""
    numa: int | None = None

    @property
    def is_glob(self) -> bool:
        """Whether the path stands for all files that match it."""
        return not GLOB_CHARACTERS.isdisjoint(self.path)


@dataclass(frozen=True, slots=True)
class MountTemplate:
    """A mount of a host's path into each container with a device."""

    host_path: str
    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """The additions to a container with devices; the texts may have placeholders.

    `path` is the path of a device in the container; "" is the path on the host.
    """

    path: str = ""
    permissions: str = "rw"
    mounts: tuple[MountTemplate, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The check of each device: one of a file, a command and a URL. Times are in seconds.

    A device is unhealthy after `failures` failed checks in succession, and healthy again after `successes` passed ones.
    """

    file: str = ""
    command: tuple[str, ...] = ()
    http: str = ""
    interval: float = 10.0
    timeout: float = 5.0
    failures: int = 3
    successes: int = 1


@dataclass(frozen=True, slots=True)
class DeviceResource:
    """One resource with its devices. Each device is published `replicas` times; it is shared if that is more than 1."""

    name: str
    sources: tuple[DeviceSource, ...]
    replicas: int = 1
    container: ContainerTemplate = ContainerTemplate()
    health: HealthCheck | None = None
