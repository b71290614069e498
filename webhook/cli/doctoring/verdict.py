"""What a check comes to: a level, why, and what mends it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

F = TypeVar("F")

_MOST_NAMED = 5
_MOST_COMMANDS = 5


class Level(StrEnum):
    """How it stands, from best to worst; UNKNOWN is for what could not be seen."""

    PASS = "PASS"  # noqa: S105  no word of entry
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    FAIL = "FAIL"


_ORDER = tuple(Level)


@dataclass(frozen=True, slots=True)
class Said:
    """What one point comes to: `reason` is a sentence with the figures, `mend` what to type, one command each."""

    level: Level
    reason: str
    mend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """A point: what it is called, the question that it answers, when it is not PASS, and who answers."""

    name: str
    title: str
    otherwise: str
    judge: Callable[[F], Said]


@dataclass(frozen=True, slots=True)
class Result:
    """A check and what it came to."""

    name: str
    title: str
    said: Said


def passed(reason: str) -> Said:
    """All is well."""
    return Said(Level.PASS, reason)


def unknown(reason: str, *mend: str) -> Said:
    """It could not be seen."""
    return Said(Level.UNKNOWN, reason, mend)


def warned(reason: str, *mend: str) -> Said:
    """It works, and somebody should know."""
    return Said(Level.WARN, reason, mend)


def failed(reason: str, *mend: str) -> Said:
    """It does not work."""
    return Said(Level.FAIL, reason, mend)


def together(said: Sequence[Said], otherwise: Said) -> Said:
    """Several things that were found at one point, the worst first; `otherwise` when there are none."""
    if not said:
        return otherwise
    ranked = sorted(said, key=lambda each: -_ORDER.index(each.level))
    reasons = dict.fromkeys(each.reason for each in ranked)
    mend = dict.fromkeys(command for each in ranked for command in each.mend)
    return Said(ranked[0].level, "; ".join(reasons), tuple(mend)[:_MOST_COMMANDS])


def named(names: Sequence[str]) -> str:
    """Names in a sentence: the first few, and how many more."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
