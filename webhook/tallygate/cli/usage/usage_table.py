"""The usage report as text, as a table for terminals, and as plain data."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tallygate.accounting.amounts import format_amount, is_milli
from tallygate.cli.output.tables import FittedTable, align_rows, escape_control
from tallygate.cli.usage.usage_report import ExceededLimit, SurgeUsage, UsageLine, UsageTotal, format_time

_UNKNOWN = "-"
_HEAD = ("RESOURCE", "HARD", "SOFT", "USED", "RESERVED", "FREE", "UTILIZATION")
_BAR_WIDTH = 10
"""The width of a bar in characters."""
_STYLES = {ExceededLimit.NONE: "", ExceededLimit.SOFT: "yellow", ExceededLimit.HARD: "bold red"}


def format_rows(lines: Sequence[UsageLine]) -> list[str]:
    """Return one row per line, for pipes."""
    header = ("CAP", "NAMESPACE", "RESOURCE", "HARD", "SOFT", "USED", "RESERVED", "FREE", "COUNTED", "NOTE")
    return align_rows(header, [_format_row(line) for line in lines])


def render_lines(lines: Sequence[UsageLine]) -> RenderableType:
    """Return one paragraph per ledger, with bars and colours, for terminals; a narrow terminal shows no bars."""
    rows, titles = [], {}
    previous: UsageLine | None = None
    for number, line in enumerate(lines):
        if previous is None or _get_ledger(previous) != _get_ledger(line):
            titles[number] = _render_title(line)
        cells = (line.name, *_format_amounts(line), _format_bar(line), "; ".join(_list_notes(line)))
        rows.append([Text(escape_control(cell), _STYLES[line.exceeded_limit]) for cell in cells])
        previous = line
    return FittedTable((*_HEAD, ""), rows, ("UTILIZATION",), titles, indent=2)


def format_totals(totals: Sequence[UsageTotal]) -> list[str]:
    """Return one row per sum, for pipes and terminals."""
    header = ("TOTAL", "LEDGERS", "RESOURCE", "HARD", "USED", "RESERVED", "FREE")
    return align_rows(header, [_format_total(total) for total in totals])


def _format_total(total: UsageTotal) -> list[str]:
    amounts = (total.hard, total.used, total.reserved, total.free)
    texts = [_UNKNOWN if amount is None else format_amount(total.name, amount) for amount in amounts]
    return [total.cap, f"{total.ledgers}", total.name, *texts]


def convert_totals(totals: Sequence[UsageTotal]) -> list[dict[str, Any]]:
    """Return the sums as plain data; amounts are milli-cpu for cpu and whole units otherwise."""
    return [
        {
            "cap": total.cap,
            "resource": total.name,
            "unit": "milli" if is_milli(total.name) else "whole",
            "ledgers": total.ledgers,
            "hard": total.hard,
            "used": total.used,
            "reserved": total.reserved,
            "free": total.free,
        }
        for total in totals
    ]


def convert_lines(lines: Sequence[UsageLine]) -> list[dict[str, Any]]:
    """Return the lines as plain data; amounts are milli-cpu for cpu and whole units otherwise."""
    return [_convert_line(line) for line in lines]


def _get_ledger(line: UsageLine) -> tuple[str, str, str]:
    return line.cap, line.group, line.namespace


def format_scope(namespace: str, members: int | None, group: str = "") -> str:
    """Return the namespace of a ledger, or `shared` or its group with the number of its member namespaces."""
    if namespace:
        return namespace
    scope = group or "shared"
    return scope if members is None else f"{scope}, {members} namespace{'s' * (members != 1)}"


def _format_row(line: UsageLine) -> list[str]:
    counted_at = _UNKNOWN if line.counted_at is None else format_time(line.counted_at)
    return [
        line.cap,
        format_scope(line.namespace, line.members, line.group),
        line.name,
        *_format_amounts(line),
        counted_at,
        "; ".join(_list_notes(line)),
    ]


def _format_amounts(line: UsageLine) -> list[str]:
    amounts = (line.hard, line.soft, line.used, line.reserved, line.free)
    return [_UNKNOWN if amount is None else format_amount(line.name, amount) for amount in amounts]


def _render_title(line: UsageLine) -> Text:
    counted_text = f", counted {format_time(line.counted_at)}" if line.counted_at else ""
    scope = escape_control(format_scope(line.namespace, line.members, line.group))
    return Text.assemble((f"{escape_control(line.cap)}  {scope}", "bold"), (counted_text, "dim"))


def _list_notes(line: UsageLine) -> list[str]:
    notes = list(line.remarks)
    if line.exceeded_limit is not ExceededLimit.NONE:
        limit = (line.hard if line.exceeded_limit is ExceededLimit.HARD else line.soft) or 0
        notes.append(f"{format_amount(line.name, (line.charged or 0) - limit)} over {line.exceeded_limit}")
    if line.surge is not None and (surge := line.surge.describe(line.name)):
        notes.append(surge)
    if line.terminating:
        notes.append(f"{format_amount(line.name, line.terminating)} of them terminating")
    return notes


def _format_bar(line: UsageLine) -> str:
    """Return a bar of the used, reserved and free amounts in tenths of the hard limit."""
    if not line.hard or line.used is None or line.charged is None:
        return ""
    used = min(_BAR_WIDTH, -(-line.used * _BAR_WIDTH // line.hard))
    charged = min(_BAR_WIDTH, max(used, -(-line.charged * _BAR_WIDTH // line.hard)))
    return "█" * used + "▒" * (charged - used) + "░" * (_BAR_WIDTH - charged)


def _convert_line(line: UsageLine) -> dict[str, Any]:
    return {
        "cap": line.cap,
        "group": line.group or None,
        "namespace": line.namespace or None,
        "namespaces": line.members,
        "resource": line.name,
        "unit": "milli" if is_milli(line.name) else "whole",
        "hard": line.hard,
        "hardUntil": None if line.period is None or line.period.end is None else format_time(line.period.end),
        "hardAfterwards": None if line.period is None else line.period.later,
        "soft": line.soft,
        "used": line.used,
        "reserved": line.reserved,
        "free": line.free,
        "terminating": line.terminating,
        "countedAt": None if line.counted_at is None else format_time(line.counted_at),
        "exceeded": line.exceeded_limit.value or None,
        "initializing": line.is_initializing,
        "surge": None if line.surge is None else _convert_surge(line.surge),
        "remarks": list(line.remarks),
    }


def _convert_surge(surge: SurgeUsage) -> dict[str, Any]:
    return {
        "amount": surge.amount,
        "since": None if surge.since is None else format_time(surge.since),
        "until": None if surge.until is None else format_time(surge.until),
    }
