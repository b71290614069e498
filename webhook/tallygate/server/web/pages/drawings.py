"""What pages draw: amounts as a strip, copies as squares, and the sign of a verdict. Texts beside them say it too."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.answers.answer_records import ShortfallRecord

STRIP_WIDTH: Final = 1000
"""The units of a strip, which is as wide as its place on the page."""

_MAX_SQUARES: Final = 60
_SQUARES_IN_ROW: Final = 10
_SQUARE, _STEP = 10, 13

_MOODS: Final = {Feasibility.NOW: "good", Feasibility.NOT_NOW: "wait", Feasibility.UNKNOWN: "wait"}


@dataclass(frozen=True, slots=True)
class StripPart:
    """A part of a strip: what it stands for (the class of its pattern), its begin and its width in units."""

    kind: str
    begin: int
    width: int


@dataclass(frozen=True, slots=True)
class Strip:
    """Amounts of one resource in their order, with a mark at `limit` in units, None without one; `text` tells them."""

    text: str
    parts: tuple[StripPart, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class CopySquares:
    """Copies on one node as squares; `left_out` is the number of those for which there is no square."""

    squares: tuple[tuple[int, int], ...]
    left_out: int
    width: int
    height: int


def draw_strip(text: str, amounts: Sequence[tuple[str, int]], limit: int | None = None) -> Strip:
    """Return a strip of amounts by kind; it ends at their sum or the limit, whichever is more."""
    total = max(sum(max(amount, 0) for _, amount in amounts), limit or 0, 1)
    parts, begin = [], 0
    for kind, amount in amounts:
        if amount > 0:
            parts.append(StripPart(kind, _scale(begin, total), _scale(begin + amount, total) - _scale(begin, total)))
            begin += amount
    return Strip(text, tuple(parts), None if limit is None else _scale(limit, total))


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
    return draw_strip(text, amounts, shortfall.allocatable)


def draw_copies(copies: int) -> CopySquares:
    """Return the squares of copies on a node, at most 60."""
    count = min(copies, _MAX_SQUARES)
    squares = tuple((index % _SQUARES_IN_ROW * _STEP, index // _SQUARES_IN_ROW * _STEP) for index in range(count))
    rows = -(-count // _SQUARES_IN_ROW)
    width = min(count, _SQUARES_IN_ROW) * _STEP - (_STEP - _SQUARE)
    return CopySquares(squares, copies - count, max(width, 1), max(rows * _STEP - (_STEP - _SQUARE), 1))


def find_mood(verdict: Feasibility) -> str:
    """Return the class of a verdict: `good`, `wait` or `bad`; its colour and its sign follow from it."""
    return _MOODS.get(verdict, "bad")
