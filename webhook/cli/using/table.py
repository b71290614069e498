"""Lines for a person, and for a program."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from webhook.accounting.amounts import is_milli, shown
from webhook.cli.report.table import harmless, table
from webhook.cli.using.lines import Line, Over, Usage

_UNKNOWN = "-"
_WIDTH = 10
"""Characters of a bar."""
_STYLES = {Over.NEITHER: "", Over.SOFT: "yellow", Over.HARD: "bold red"}


def render(lines: Sequence[Line], *, bars: bool) -> RenderableType:
    """The table, with bars where they can be seen."""
    head = ["CAP", "NAMESPACE", "RESOURCE", "HARD", "SOFT", "HELD", "PROMISED", "FREE", "SINCE", "NOTE"]
    if bars:
        head.insert(-2, "USED")
    return table(head, [_row(line, bars=bars) for line in lines])


def data(usage: Usage) -> dict[str, Any]:
    """Everything for a program; amounts are milli-cpu for cpu and whole units otherwise."""
    return {"usage": [_data(line) for line in usage.lines], "notes": list(usage.notes)}


def where(namespace: str, members: int | None) -> str:
    """Whose ledger it is."""
    if namespace:
        return namespace
    return "shared" if members is None else f"shared, {members} namespace{'s' * (members != 1)}"


def _row(line: Line, *, bars: bool) -> list[str | Text]:
    style = _STYLES[line.over]
    row: list[str | Text] = [
        line.cap,
        where(line.namespace, line.members),
        line.name,
        _shown(line.name, line.hard),
        _shown(line.name, line.soft),
        Text(_shown(line.name, line.held), style),
        Text(_shown(line.name, line.promised), style),
        _shown(line.name, line.free),
        _UNKNOWN if line.since is None else _time(line.since),
        Text(harmless("; ".join(_notes(line))), style),
    ]
    if bars:
        row.insert(-2, Text(_bar(line), style))
    return row


def _notes(line: Line) -> list[str]:
    notes = list(line.remarks)
    if line.over is not Over.NEITHER:
        bound = (line.hard if line.over is Over.HARD else line.soft) or 0
        notes.append(f"{shown(line.name, line.charged - bound)} over {line.over}")
    if line.terminating:
        notes.append(f"{shown(line.name, line.terminating)} of them terminating")
    return notes


def _bar(line: Line) -> str:
    """Held, promised and free, in tenths of what is allowed."""
    if not line.hard:
        return ""
    held = min(_WIDTH, -(-line.held * _WIDTH // line.hard))
    charged = min(_WIDTH, max(held, -(-line.charged * _WIDTH // line.hard)))
    return "█" * held + "▒" * (charged - held) + "░" * (_WIDTH - charged)


def _shown(name: str, amount: int | None) -> str:
    return _UNKNOWN if amount is None else shown(name, amount)


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
