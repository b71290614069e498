"""The formula of Homebrew: the order of its components, the archive of each platform, and its syntax."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.release.commands import ReleaseError
from tests.release.homebrew_formula import describe_formula
from tests.release.standalone import PLATFORMS

_URL = "https://github.com/example/tallygate/releases/download/v1.2.3"
_ORDER = (
    "desc",
    "homepage",
    "version",
    "license",
    "on_macos do",
    "on_linux do",
    "preserve_rpath",
    "def install",
    "test do",
)
"""Of FORMULA_COMPONENT_PRECEDENCE_LIST of Homebrew, by which `brew style` compares: what the formula has of it."""
_BLOCKS = {"darwin": "on_macos", "linux": "on_linux", "arm64": "on_arm", "amd64": "on_intel"}


def write_formula(folder: Path, platforms: tuple[str, ...] = PLATFORMS) -> str:
    """Write an archive for each platform, and return the formula of them."""
    archives = [folder / f"tallygate-{platform}.tar.gz" for platform in platforms]
    for archive in archives:
        archive.write_bytes(archive.name.encode())
    return describe_formula("1.2.3", "https://example.com", _URL, archives)


def read_sources(formula: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the values in each block, by the names of the blocks around them; the indentation is the nesting."""
    sources: dict[tuple[str, ...], dict[str, str]] = {}
    around: list[str] = []
    for line in formula.splitlines():
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        around = around[:depth]
        if found := re.fullmatch(r'\s*(url|sha256) "(.*)"', line):
            sources.setdefault(tuple(around[1:]), {})[found[1]] = found[2]
        elif line.endswith(" do"):
            around.append(line.split()[0])
        elif line.startswith("class "):
            around.append(line)
    return sources


def test_the_components_have_the_order_of_homebrew(tmp_path: Path) -> None:
    components = re.findall(r"^  ([a-z].*?)(?: \"|$)", write_formula(tmp_path), re.MULTILINE)
    assert tuple(each for each in components if each != "end") == _ORDER


def test_each_platform_has_the_address_and_the_digest_of_its_archive(tmp_path: Path) -> None:
    sources = read_sources(write_formula(tmp_path))
    assert sources == {
        tuple(_BLOCKS[each] for each in platform.split("-")): {
            "url": f"{_URL}/tallygate-{platform}.tar.gz",
            "sha256": hashlib.sha256((tmp_path / f"tallygate-{platform}.tar.gz").read_bytes()).hexdigest(),
        }
        for platform in PLATFORMS
    }


def test_a_platform_without_an_archive_is_left_out(tmp_path: Path) -> None:
    formula = write_formula(tmp_path, ("linux-arm64",))
    assert set(read_sources(formula)) == {("on_linux", "on_arm")}
    assert "on_macos" not in formula


def test_the_description_is_as_homebrew_wants_it(tmp_path: Path) -> None:
    """Follow `brew style`: at most 80 characters, no article, not the name, no full stop."""
    (description,) = re.findall(r'^  desc "(.*)"$', write_formula(tmp_path), re.MULTILINE)
    assert len(description) <= 80
    assert re.fullmatch(r"(?!The |An? |Tallygate)[A-Z].*[^.\s]", description)


def test_both_names_of_the_command_are_linked_and_tried(tmp_path: Path) -> None:
    formula = write_formula(tmp_path)
    links = re.findall(r'bin\.install_symlink libexec/"tallygate"(?: => "([\w-]+)")?$', formula, re.MULTILINE)
    assert links == ["", "kubectl-tallygate"]
    for name in ("tallygate", "kubectl-tallygate"):
        assert f'shell_output("#{{bin}}/{name} --version")' in formula


def test_every_block_ends(tmp_path: Path) -> None:
    """Compare the indentation of each beginning with that of its end."""
    beginnings: list[str] = []
    for line in write_formula(tmp_path).splitlines():
        indentation = line[: len(line) - len(line.lstrip())]
        if re.match(r" *(class|def) | *[\w ]+ do$", line):
            beginnings.append(indentation)
        elif line.strip() == "end":
            assert beginnings.pop() == indentation
    assert beginnings == []


def test_ruby_reads_it(tmp_path: Path) -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("ruby is not on PATH")
    file = tmp_path / "tallygate.rb"
    file.write_text(write_formula(tmp_path), encoding="utf-8")
    done = subprocess.run([ruby, "-wc", file], capture_output=True, text=True, check=False)  # noqa: S603  found, no shell
    assert (done.returncode, done.stdout, done.stderr) == (0, "Syntax OK\n", "")


def test_no_formula_is_made_without_an_archive() -> None:
    with pytest.raises(ReleaseError, match="needs an archive"):
        describe_formula("1.2.3", "https://example.com", _URL, [])
