"""Lines for a person, and for a program."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from webhook.accounting.amounts import format_amount, is_milli
from webhook.cli.report.table import aligned, harmless
from webhook.cli.using.lines import Line, Over, Usage

_UNKNOWN = "-"
_HEAD = ("RESOURCE", "HARD", "SOFT", "HELD", "PROMISED", "FREE", "USED")
_WIDTH = 10
"""Characters of a bar."""
_STYLES = {Over.NEITHER: "", Over.SOFT: "yellow", Over.HARD: "bold red"}


def rows(lines: Sequence[Line]) -> list[str]:
    """One row a line, for pipes."""
    head = ("CAP", "NAMESPACE", "RESOURCE", "HARD", "SOFT", "HELD", "PROMISED", "FREE", "SINCE", "NOTE")
    return aligned(head, [_row(line) for line in lines])


def paragraphs(lines: Sequence[Line]) -> RenderableType:
    """One paragraph a ledger, with bars and colours, for terminals: what is too wide for one is the note alone."""
    cells = [(line.name, *_numbers(line), _bar(line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(_HEAD, *cells, strict=True)]
    parts = [Text(_spaced(_HEAD, widths), "bold")]
    before: Line | None = None
    for line, row in zip(lines, cells, strict=True):
        if before is None or (before.cap, before.namespace) != (line.cap, line.namespace):
            parts.append(_title(line))
        parts.append(Text(f"{_spaced(row, widths)}{harmless('; '.join(_notes(line)))}", _STYLES[line.over]))
        before = line
    return Group(*parts)


def data(usage: Usage) -> dict[str, Any]:
    """Everything for a program; amounts are milli-cpu for cpu and whole units otherwise."""
    return {"usage": [_data(line) for line in usage.lines], "notes": list(usage.notes)}


def where(namespace: str, members: int | None) -> str:
    """Whose ledger it is."""
    if namespace:
        return namespace
    return "shared" if members is None else f"shared, {members} namespace{'s' * (members != 1)}"


def _row(line: Line) -> list[str]:
    since = _UNKNOWN if line.since is None else _time(line.since)
    return [
        line.cap,
        where(line.namespace, line.members),
        line.name,
        *_numbers(line),
        since,
        "; ".join(_notes(line)),
    ]


def _numbers(line: Line) -> list[str]:
    amounts = (line.hard, line.soft, line.held, line.promised, line.free)
    return [_UNKNOWN if amount is None else format_amount(line.name, amount) for amount in amounts]


def _title(line: Line) -> Text:
    since = f", counted {_time(line.since)}" if line.since else ""
    place = harmless(where(line.namespace, line.members))
    return Text.assemble((f"{harmless(line.cap)}  {place}", "bold"), (since, "dim"))


def _spaced(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  " + "".join(f"{harmless(cell):{width + 2}}" for cell, width in zip(cells, widths, strict=True))


def _notes(line: Line) -> list[str]:
    notes = list(line.remarks)
    if line.over is not Over.NEITHER:
        bound = (line.hard if line.over is Over.HARD else line.soft) or 0
        notes.append(f"{format_amount(line.name, line.charged - bound)} over {line.over}")
    if line.terminating:
        notes.append(f"{format_amount(line.name, line.terminating)} of them terminating")
    return notes


def _bar(line: Line) -> str:
    """Held, promised and free, in tenths of what is allowed."""
    if not line.hard:
        return ""
    held = min(_WIDTH, -(-line.held * _WIDTH // line.hard))
    charged = min(_WIDTH, max(held, -(-line.charged * _WIDTH // line.hard)))
    return "█" * held + "▒" * (charged - held) + "░" * (_WIDTH - charged)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _data(line: Line) -> dict[str, Any]:
    return {
        "cap": line.cap,
        "namespace": line.namespace or None,
        "namespaces": line.members,
        "resource": line.name,
        "unit": "milli" if is_milli(line.name) else "whole",
        "hard": line.hard,
        "soft": line.soft,
        "held": line.held,
        "promised": line.promised,
        "free": line.free,
        "terminating": line.terminating,
        "since": None if line.since is None else _time(line.since),
        "over": line.over.value or None,
        "converging": line.converging,
        "remarks": list(line.remarks),
    }
