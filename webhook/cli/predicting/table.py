"""Nodes one by one: what each says to a pod, how it is liked, and how full it is."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from webhook.accounting.amounts import format_amount
from webhook.accounting.node_fit import Shortfall
from webhook.cli.predicting.lines import format_shortfall
from webhook.cli.predicting.outcome import NodeLine
from webhook.cli.report.table import align_rows, create_table, escape_control

_WIDTH = 10
"""Characters of a bar."""
_FITS, _NOT_NOW, _NEVER = "fits", "not now", "never"
_NODE_STYLES = {_FITS: "green", _NOT_NOW: "yellow", _NEVER: "red"}
_HEADER = ("NODE", "ANSWER", "COPIES", "FIT", "BALANCE", "TIGHTEST", "REASON")


def format_rows(lines: Sequence[NodeLine]) -> list[str]:
    """One row a node, for pipes."""
    return align_rows(_HEADER, [(*_create_row(line), format_reason(line)) for line in lines])


def create_node_table(lines: Sequence[NodeLine]) -> RenderableType:
    """The same with bars and colours, for terminals."""
    header = (*_HEADER[:-1], "USED", _HEADER[-1])
    return create_table(
        header, [(*_create_styled_row(line), format_bar(line.tightest), format_reason(line)) for line in lines]
    )


def get_node_feasibility(line: NodeLine) -> str:
    """Whether the node takes the pod: now, once others have left, or never as it is."""
    if not line.diagnosis.reasons:
        return _FITS
    return _NOT_NOW if line.diagnosis.can_ever_run else _NEVER


def format_reason(line: NodeLine) -> str:
    """Why a node does not take it: the scheduler's words, and in numbers what is short."""
    diagnosis = line.diagnosis
    shortfalls = {each.reason: f"Insufficient {format_shortfall(each)}" for each in diagnosis.shortfalls}
    reasons = [shortfalls.pop(each, each) for each in diagnosis.reasons]
    return "; ".join([*reasons, *(f"also {each}" for each in shortfalls.values())])


def format_bar(tightest: Shortfall) -> str:
    """Used, asked for and free, in tenths of what there is; more than there is fills it."""
    if tightest.allocatable <= 0:
        return ""
    used = min(_WIDTH, -(-tightest.used * _WIDTH // tightest.allocatable))
    full = min(_WIDTH, max(used, -(-(tightest.used + tightest.requested) * _WIDTH // tightest.allocatable)))
    return "█" * used + "▒" * (full - used) + "░" * (_WIDTH - full)


def _create_row(line: NodeLine) -> tuple[str, ...]:
    copies = str(line.copies) if line.copies else "-"
    return (
        line.diagnosis.name,
        get_node_feasibility(line),
        copies,
        str(line.allocation_score),
        str(line.balance_score),
        _format_tightest(line.tightest),
    )


def _create_styled_row(line: NodeLine) -> tuple[str | Text, ...]:
    name, feasibility, *other_cells = _create_row(line)
    return name, Text(escape_control(feasibility), _NODE_STYLES[feasibility]), *other_cells


def _format_tightest(shortfall: Shortfall) -> str:
    used, requested, capacity = (
        format_amount(shortfall.resource, amount)
        for amount in (shortfall.used, shortfall.requested, shortfall.allocatable)
    )
    return f"{shortfall.resource} {used} + {requested} of {capacity}"
