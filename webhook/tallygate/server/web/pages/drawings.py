"""What pages draw: amounts as a strip, copies as squares, and the sign of a verdict. Texts beside them say it too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.answers.answer_records import ShortfallRecord
from tallygate.answers.node_overview import NodeAmount

STRIP_WIDTH: Final = 1000
"""The units of a strip, which is as wide as its place on the page."""

_MAX_SQUARES: Final = 60
_SQUARES_IN_ROW: Final = 10
_SQUARE, _STEP = 10, 13

Dict = Mapping[str, Any]

_MOODS: Final = {Feasibility.NOW: "good", Feasibility.NOT_NOW: "wait", Feasibility.UNKNOWN: "wait"}


@dataclass(frozen=True, slots=True)
class StripPart:
    """A part of a strip: what it stands for (the class of its pattern), its begin and its width in units."""

    kind: str
    begin: int
    width: int


class StripMark(NamedTuple):
    """The mark of a limit in a strip: `hard` or `soft`, and where it is."""

    kind: str
    place: int


@dataclass(frozen=True, slots=True)
class Strip:
    """Amounts of one resource in their order, with marks of limits in units; `text` has the same in words."""

    text: str
    parts: tuple[StripPart, ...]
    marks: tuple[StripMark, ...] = ()


@dataclass(frozen=True, slots=True)
class CopySquares:
    """Copies on one node as squares; `left_out` is the number of those for which there is no square."""

    squares: tuple[tuple[int, int], ...]
    left_out: int
    width: int
    height: int


def draw_strip(text: str, amounts: Sequence[tuple[str, int]], limits: Sequence[tuple[str, int]] = ()) -> Strip:
    """Return a strip of amounts by kind with its limits; it ends at the sum of the amounts or the largest limit."""
    total = max(sum(max(amount, 0) for _, amount in amounts), *(limit for _, limit in limits), 1)
    parts, begin = [], 0
    for kind, amount in amounts:
        if amount > 0:
            parts.append(StripPart(kind, _scale(begin, total), _scale(begin + amount, total) - _scale(begin, total)))
            begin += amount
    return Strip(text, tuple(parts), tuple(StripMark(kind, _scale(limit, total)) for kind, limit in limits))


def _scale(amount: int, total: int) -> int:
    return int(Fraction(amount * STRIP_WIDTH, total))


def draw_shortfall(shortfall: ShortfallRecord) -> Strip:
    """Return the strip of a resource of a node that a pod lacks: what is used, and what the pod requests."""
    used, requested, capacity = (
        format_amount(shortfall.resource, amount)
        for amount in (shortfall.used, shortfall.requests, shortfall.allocatable)
    )
    text = f"{shortfall.resource}: {used} used + {requested} requested of {capacity}"
    amounts = [("used", shortfall.used), ("requested", shortfall.requests)]
    return draw_strip(text, amounts, [("hard", shortfall.allocatable)])


def draw_cap(item: Dict, others: Mapping[str, int] | None = None) -> Strip | None:
    """Return the strip of a line of a cap; `others` are the amounts that other namespaces have of it, where known.

    None without a hard limit, or while the used amount is not known.
    """
    name, used, reserved, hard, soft = (item[key] for key in ("resource", "used", "reserved", "hard", "soft"))
    if used is None or hard is None:
        return None
    elsewhere = min((others or {}).get(name, 0), used + (reserved or 0))
    own = max(used - elsewhere, 0)
    words = [f"{format_amount(name, used)} used"]
    if elsewhere:
        words[0] += f" ({format_amount(name, own)} here, {format_amount(name, elsewhere)} by other namespaces)"
    if reserved:
        words.append(f"{format_amount(name, reserved)} reserved")
    guaranteed = hard - used - (reserved or 0) - item["free"]
    if guaranteed > 0:
        words.append(f"{format_amount(name, guaranteed)} guaranteed to other namespaces")
    words.append(f"{format_amount(name, item['free'])} free of {format_amount(name, hard)}")
    limits = [("hard", hard)]
    if soft is not None:
        words.append(f"warns above {format_amount(name, soft)}")
        limits.append(("soft", soft))
    amounts = [("used", own), ("others", min(elsewhere, used)), ("reserved", reserved or 0)]
    return draw_strip(f"{name}: {', '.join(words)}", amounts, limits)


def draw_node_amount(amount: NodeAmount) -> Strip:
    """Return the strip of a resource of a node: used, free, and unhealthy beyond what is allocatable."""
    name = amount.resource
    used, free, allocatable = (format_amount(name, each) for each in (amount.used, amount.free, amount.allocatable))
    text = f"{name}: {used} used, {free} free of {allocatable}"
    if amount.unhealthy:
        text += f", {format_amount(name, amount.unhealthy)} unhealthy"
    amounts = [("used", amount.used), ("free", amount.free), ("unhealthy", amount.unhealthy)]
    return draw_strip(text, amounts, [("hard", amount.allocatable)] if amount.unhealthy else [])


def draw_total(total: Dict) -> Strip | None:
    """Return the strip of the hard limits of a cap beside the capacity of all nodes; None if that is not known."""
    name, hard, capacity = total["resource"], total["hard"], total["capacity"]
    if hard is None or capacity is None:
        return None
    text = f"{name}: limits of {format_amount(name, hard)} over {format_amount(name, capacity)} on all nodes"
    within = min(hard, capacity)
    return draw_strip(text, [("used", within), ("over", hard - within)], [("hard", capacity)])


def draw_copies(copies: int) -> CopySquares:
    """Return the squares of copies on a node, at most 60."""
    count = min(copies, _MAX_SQUARES)
    squares = tuple((index % _SQUARES_IN_ROW * _STEP, index // _SQUARES_IN_ROW * _STEP) for index in range(count))
    rows = -(-count // _SQUARES_IN_ROW)
    width = min(count, _SQUARES_IN_ROW) * _STEP - (_STEP - _SQUARE)
    return CopySquares(squares, copies - count, max(width, 1), max(rows * _STEP - (_STEP - _SQUARE), 1))


def find_mood(verdict: str) -> str:
    """Return the class of a verdict: `good`, `wait` or `bad`; its colour and its sign follow from it."""
    return _MOODS.get(Feasibility(verdict), "bad")
