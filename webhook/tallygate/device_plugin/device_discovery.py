"""The search for the devices of a resource: its files on the host, and their NUMA nodes in sysfs."""

import errno
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tallygate.device_plugin.device_config import GLOB_CHARACTERS, MAX_DEVICES, DeviceResource, DeviceSource
from tallygate.device_plugin.device_inventory import FoundDevice, create_device_id


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The files of the host: `root` is the folder where they are mounted in the plugin's container."""

    root: Path = Path("/")
    sysfs: Path = Path("/sys")

    def locate(self, path: str) -> Path:
        """Return the path of a host's file in this container."""
        return self.root / path.lstrip("/")

    def find_devices(self, resource: DeviceResource) -> list[FoundDevice]:
        """Return the devices of a resource; those that the configuration names one by one stand first."""
        single = [source for source in resource.sources if not source.is_glob]
        found = [self._find_one(source) for source in single]
        named = {source.path for source in single}
        for source in resource.sources:
            if source.is_glob:
                matching = (path for path in self._match(source.path) if path not in named)
                found += (self._describe(path, create_device_id(path), source.numa) for path in matching)
        return found

    def list_folders(self, resources: Sequence[DeviceResource]) -> list[Path]:
        """Return the existing folders in which devices appear and vanish, for a watch."""
        folders = set()
        for path in (source.path for resource in resources for source in resource.sources if source.path):
            folder = os.path.dirname(path)  # noqa: PTH120  a glob is no path
            while not GLOB_CHARACTERS.isdisjoint(folder):
                folder = os.path.dirname(folder)  # noqa: PTH120  likewise
            folders.add(self.locate(folder))
        return sorted(folder for folder in folders if folder.is_dir())

    def _find_one(self, source: DeviceSource) -> FoundDevice:
        device_id = source.device_id or create_device_id(source.path)
        return (
            self._describe(source.path, device_id, source.numa)
            if source.path
            else FoundDevice(device_id, "", source.numa)
        )

    def _match(self, pattern: str) -> Iterator[str]:
        """Yield the device nodes that a glob matches, as paths of the host, at most one more than are published."""
        start = os.fspath(self.root).rstrip("/")
        matches = sorted(islice(glob.iglob(glob.escape(start) + pattern), MAX_DEVICES + 1))  # noqa: PTH207  the host's root is no part of the pattern
        for match in matches:
            path = match.removeprefix(start)
            if path.isprintable() and not self._find_problem(path):
                yield path

    def _find_problem(self, path: str) -> str:
        try:
            mode = self.locate(path).stat().st_mode
        except OSError as error:
            missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
            return f"{path} does not exist" if missing else f"{path} cannot be looked at: {error.strerror}"
        is_usable = stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)
        return "" if is_usable else f"{path} is neither a device node nor a folder of device nodes"

    def _describe(self, path: str, device_id: str, numa: int | None) -> FoundDevice:
        return FoundDevice(device_id, path, self._read_numa(path) if numa is None else numa, self._find_problem(path))

    def _read_numa(self, path: str) -> int | None:
        """Return the NUMA node of a device node: that of the nearest device above it in sysfs that has one."""
        with suppress(OSError, ValueError):
            status = self.locate(path).stat()
            kind = "block" if stat.S_ISBLK(status.st_mode) else "char"
            number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            link = self.sysfs / "dev" / kind / number
            if stat.S_ISDIR(status.st_mode) or not link.exists():
                return None
            device = link.resolve()
            for folder in (device, *device.parents):
                file = folder / "numa_node"
                if file.is_file():
                    node = int(file.read_text("ascii"))
                    return node if node >= 0 else None
        return None
