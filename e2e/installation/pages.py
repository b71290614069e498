"""What the pages of docs/ say to type and to write, section by section: the cases do just that."""

import re
from pathlib import Path
from typing import Final

_DOCS: Final = Path(__file__).parents[2] / "docs"
_ENDS = "\n## "


def commands(page: str, heading: str) -> list[list[str]]:
    """What a section shows as typed: of each of its consoles the commands, continued lines put together.

    Raises:
        LookupError: the page has no such section.
    """
    consoles = _blocks(page, heading, "console")
    lines = ([line for line in each.replace("\\\n", " ").splitlines() if line.startswith("$ ")] for each in consoles)
    return [[line.removeprefix("$ ") for line in each] for each in lines]


def written(page: str, heading: str) -> list[str]:
    """The pieces of YAML that a section shows.

    Raises:
        LookupError: the page has no such section.
    """
    return _blocks(page, heading, "yaml")


def in_passing(page: str, heading: str, command: str) -> str:
    """A command that a section names within a sentence.

    Raises:
        LookupError: it does not.
    """
    if f"`{command}`" not in _section(page, heading):
        raise LookupError(f"docs/{page}: nothing under {heading!r} says to type {command!r}")
    return command


def _blocks(page: str, heading: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _section(page, heading), re.DOTALL | re.MULTILINE)


def _section(page: str, heading: str) -> str:
    """Everything from a heading to the next one of the second level."""
    _, found, rest = (_DOCS / page).read_text().partition(f"{_ENDS}{heading}\n")
    if not found:
        raise LookupError(f"docs/{page} has no section {heading!r}")
    return rest.partition(_ENDS)[0]
