"""The archive of the command: which platforms there are, and what the archive needs of a machine."""

import re
from pathlib import Path

import pytest

from tests.release.commands import ROOT, ReleaseError
from tests.release.standalone import PLATFORMS, find_oldest_glibc, find_platform


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("linux", "x86_64", "linux-amd64"),
        ("linux", "aarch64", "linux-arm64"),
        ("darwin", "x86_64", "darwin-amd64"),
        ("darwin", "arm64", "darwin-arm64"),
    ],
)
def test_a_platform_has_the_name_that_krew_knows(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, name: str
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert find_platform() == name
    assert name in PLATFORMS


def test_another_platform_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ReleaseError, match="riscv64"):
        find_platform()


def test_the_needed_glibc_is_the_newest_of_all_libraries(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.17\0")
    (tmp_path / "b.so").write_bytes(b"\x7fELF\0GLIBC_2.9\0GLIBC_2.34\0")
    (tmp_path / "text").write_bytes(b"\0GLIBC_2.99\0")
    assert find_oldest_glibc(tmp_path) == "2.34"
    assert find_oldest_glibc(tmp_path / "none") == ""


def test_the_workflow_makes_an_archive_for_each_platform() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    found = re.search(r"runner: \[(.+)\]", release)
    assert found is not None
    assert found[1].split(", ") == ["ubuntu-22.04", "ubuntu-22.04-arm", "macos-15-intel", "macos-15"]
    assert len(found[1].split(", ")) == len(PLATFORMS)
