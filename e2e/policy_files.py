"""Policy files of the gate: the shipped ones, or those of `e2e/policies`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tallygate.policy.load import SHIPPED_POLICIES

_FOLDER = Path(__file__).parent / "policies"

SHIPPED_FILES = {file.name: file.read_text() for file in sorted(SHIPPED_POLICIES.iterdir())}
"""The shipped policies, by file name."""


def policy_files(names: Iterable[str]) -> dict[str, str]:
    """Return files of `e2e/policies`, by name; the shipped ones when none is named."""
    return {name: (_FOLDER / name).read_text() for name in names} or SHIPPED_FILES


def put(files: Mapping[str, str], folder: Path) -> None:
    """Replace the files of a folder that a gate reads; each file appears whole."""
    for old in folder.iterdir():
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        beside = folder / f".{name}.new"
        beside.write_text(text)
        beside.rename(folder / name)
