"""Commands and files of the pages of docs/, section by section: the cases run and write exactly these."""

import re
from pathlib import Path
from typing import Final

_DOCS: Final = Path(__file__).parents[2] / "docs"
_ENDS = "\n## "


def read_commands(page: str, heading: str) -> list[list[str]]:
    """Return the commands of each console of a section, with continued lines joined.

    Raises:
        LookupError: if the page has no such section.
    """
    consoles = _blocks(page, heading, "console")
    lines = ([line for line in each.replace("\\\n", " ").splitlines() if line.startswith("$ ")] for each in consoles)
    return [[line.removeprefix("$ ") for line in each] for each in lines]


def read_yaml(page: str, heading: str) -> list[str]:
    """Return the pieces of YAML of a section.

    Raises:
        LookupError: if the page has no such section.
    """
    return _blocks(page, heading, "yaml")


def read_inline_command(page: str, heading: str, command: str) -> str:
    """Return a command that a section names within a sentence.

    Raises:
        LookupError: if it does not.
    """
    if f"`{command}`" not in _section(page, heading):
        raise LookupError(f"docs/{page}: nothing under {heading!r} says to type {command!r}")
    return command


def _blocks(page: str, heading: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _section(page, heading), re.DOTALL | re.MULTILINE)


def _section(page: str, heading: str) -> str:
    """Return everything from a heading to the next one of the second level, of the page with this file name."""
    (path,) = _DOCS.rglob(page)
    _, found, rest = path.read_text().partition(f"{_ENDS}{heading}\n")
    if not found:
        raise LookupError(f"docs/{page} has no section {heading!r}")
    return rest.partition(_ENDS)[0]
