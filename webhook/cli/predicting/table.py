"""Nodes one by one: what each says to a pod, how it is liked, and how full it is."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from webhook.accounting.amounts import format_amount
from webhook.accounting.node_fit import Shortfall
from webhook.cli.predicting.lines import numbers
from webhook.cli.predicting.outcome import NodeLine
from webhook.cli.report.table import aligned, harmless, table

_WIDTH = 10
"""Characters of a bar."""
_FITS, _NOT_NOW, _NEVER = "fits", "not now", "never"
_STYLES = {_FITS: "green", _NOT_NOW: "yellow", _NEVER: "red"}
_HEAD = ("NODE", "ANSWER", "COPIES", "FIT", "BALANCE", "TIGHTEST", "REASON")


def rows(lines: Sequence[NodeLine]) -> list[str]:
    """One row a node, for pipes."""
    return aligned(_HEAD, [(*_row(line), reason(line)) for line in lines])


def bars(lines: Sequence[NodeLine]) -> RenderableType:
    """The same with bars and colours, for terminals."""
    head = (*_HEAD[:-1], "USED", _HEAD[-1])
    return table(head, [(*_coloured(line), bar(line.tightest), reason(line)) for line in lines])


def answered(line: NodeLine) -> str:
    """Whether the node takes the pod: now, once others have left, or never as it is."""
    if not line.said.reasons:
        return _FITS
    return _NOT_NOW if line.said.can_ever_run else _NEVER


def reason(line: NodeLine) -> str:
    """Why a node does not take it: the scheduler's words, and in numbers what is short."""
    said = line.said
    short = {each.reason: f"Insufficient {numbers(each)}" for each in said.shortfalls}
    words = [short.pop(each, each) for each in said.reasons]
    return "; ".join([*words, *(f"also {each}" for each in short.values())])


def bar(tightest: Shortfall) -> str:
    """Used, asked for and free, in tenths of what there is; more than there is fills it."""
    if tightest.allocatable <= 0:
        return ""
    used = min(_WIDTH, -(-tightest.used * _WIDTH // tightest.allocatable))
    full = min(_WIDTH, max(used, -(-(tightest.used + tightest.requested) * _WIDTH // tightest.allocatable)))
    return "█" * used + "▒" * (full - used) + "░" * (_WIDTH - full)


def _row(line: NodeLine) -> tuple[str, ...]:
    copies = str(line.copies) if line.copies else "-"
    return line.said.name, answered(line), copies, str(line.allocation), str(line.balance), _tightest(line.tightest)


def _coloured(line: NodeLine) -> tuple[str | Text, ...]:
    name, answer, *more = _row(line)
    return name, Text(harmless(answer), _STYLES[answer]), *more


def _tightest(each: Shortfall) -> str:
    used, asked, capacity = (
        format_amount(each.resource, amount) for amount in (each.used, each.requested, each.allocatable)
    )
    return f"{each.resource} {used} + {asked} of {capacity}"
