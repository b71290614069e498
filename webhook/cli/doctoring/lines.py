"""What was found, for a person and for a program."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from webhook.cli.doctoring.checks import CHECKS
from webhook.cli.doctoring.verdict import Level, Result
from webhook.cli.report import write
from webhook.cli.report.table import harmless

_STYLES = {Level.PASS: "green", Level.UNKNOWN: "cyan", Level.WARN: "yellow", Level.FAIL: "bold red"}
_WIDTH = max(map(len, Level)) + 2
_NAMES = max(len(check.name) for check in CHECKS) + 2
_INDENT = " " * _WIDTH


def paragraphs(results: Sequence[Result]) -> Group:
    """One paragraph a check: how it stands, why, and beneath it what mends it, each command a line to copy."""
    return Group(*(part for result in results for part in _paragraph(result)))


def show(results: Sequence[Result]) -> None:
    """Print them. Commands are never folded, so that they can be copied from a terminal of any width."""
    terminal = write.console(sys.stdout)
    terminal.print(paragraphs(results), soft_wrap=True)


def _paragraph(result: Result) -> Iterator[RenderableType]:
    said = result.said
    level = (f"{said.level:<{_WIDTH}}", _STYLES[said.level])
    yield Text.assemble(level, (f"{result.name:<{_NAMES}}", "bold"), harmless(said.reason))
    for command in said.mend:
        yield Text(f"{_INDENT}$ {harmless(command)}")


def summary(results: Sequence[Result]) -> str:
    """How many of each."""
    counts = Counter(result.said.level for result in results)
    told = ", ".join(f"{counts[level]} {level}" for level in reversed(Level) if counts[level])
    return f"{len(results)} checks: {told}"


def data(results: Sequence[Result]) -> dict[str, Any]:
    """The same for a program."""
    counts = Counter(result.said.level for result in results)
    return {
        "summary": {str(level): counts[level] for level in Level},
        "checks": [
            {
                "check": result.name,
                "title": result.title,
                "result": str(result.said.level),
                "reason": result.said.reason,
                "mend": list(result.said.mend),
            }
            for result in results
        ],
    }
