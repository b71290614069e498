"""The search for devices: paths and globs below the host's root, and the NUMA nodes of a sysfs."""

import os
from pathlib import Path

import pytest

from tallygate.device_plugin.device_config import DeviceResource, DeviceSource
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_inventory import FoundDevice


def _make_device(root: Path, path: str, target: str = "/dev/null") -> None:
    """Make a device node: a link to one, since only root makes nodes."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(target)


def _find(root: Path, *sources: DeviceSource, sysfs: Path = Path("/no-sysfs")) -> list[FoundDevice]:
    return HostFiles(root, sysfs).find_devices(DeviceResource("example.com/dongle", sources))


def test_a_glob_finds_device_nodes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("ttyUSB10", "ttyUSB0", "ttyUSB2", "ttyS0"):
        _make_device(tmp_path, f"/dev/{name}")
    (tmp_path / "dev" / "ttyUSB-notes").write_text("no device", "utf-8")
    assert _find(tmp_path, DeviceSource(path="/dev/ttyUSB*")) == [
        FoundDevice("ttyUSB0", "/dev/ttyUSB0"),
        FoundDevice("ttyUSB10", "/dev/ttyUSB10"),
        FoundDevice("ttyUSB2", "/dev/ttyUSB2"),
    ]


def test_a_root_with_characters_of_globs_is_taken_as_it_is(tmp_path: Path) -> None:
    _make_device(tmp_path / "[host]*", "/dev/a")
    assert _find(tmp_path / "[host]*", DeviceSource(path="/dev/?")) == [FoundDevice("a", "/dev/a")]


def test_a_path_that_is_named_is_not_found_by_a_glob_again(tmp_path: Path) -> None:
    _make_device(tmp_path, "/dev/a")
    _make_device(tmp_path, "/dev/b")
    sources = (DeviceSource(path="/dev/*"), DeviceSource("front", "/dev/a", 1))
    assert _find(tmp_path, *sources) == [FoundDevice("front", "/dev/a", 1), FoundDevice("b", "/dev/b")]


def test_a_named_device_without_its_file_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("", "utf-8")
    assert _find(tmp_path, DeviceSource(path="/dev/a"), DeviceSource("n", "/notes"), DeviceSource("seat")) == [
        FoundDevice("a", "/dev/a", None, "/dev/a does not exist"),
        FoundDevice("n", "/notes", None, "/notes is neither a device node nor a folder of device nodes"),
        FoundDevice("seat"),
    ]


def test_a_folder_of_device_nodes_is_a_device(tmp_path: Path) -> None:
    _make_device(tmp_path, "/dev/fpga/0/cm")
    assert [each.path for each in _find(tmp_path, DeviceSource(path="/dev/fpga/*"))] == ["/dev/fpga/0"]


@pytest.mark.parametrize(
    ("text", "node"), [("1\n", 1), ("-1\n", None), ("", None), ("many", None)], ids=["one", "unknown", "empty", "text"]
)
def test_the_numa_node_is_that_of_the_nearest_device_in_sysfs(tmp_path: Path, text: str, node: int | None) -> None:
    _make_device(tmp_path / "host", "/dev/a")
    number = Path("/dev/null").stat().st_rdev
    sysfs = tmp_path / "sys"
    device = sysfs / "devices" / "pci0000:00" / "usb1" / "tty"
    device.mkdir(parents=True)
    (sysfs / "devices" / "pci0000:00" / "numa_node").write_text(text, "ascii")
    link = sysfs / "dev" / "char" / f"{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(device)
    (found,) = _find(tmp_path / "host", DeviceSource(path="/dev/a"), sysfs=sysfs)
    assert found.numa == node


def test_the_folders_of_globs_and_paths_are_watched(tmp_path: Path) -> None:
    _make_device(tmp_path, "/dev/fpga/0/cm")
    sources = (DeviceSource(path="/dev/fpga/*/cm"), DeviceSource(path="/missing/x"), DeviceSource(path="/dev/a"))
    folders = HostFiles(tmp_path).list_folders([DeviceResource("example.com/a", sources)])
    assert folders == [tmp_path / "dev", tmp_path / "dev" / "fpga"]
