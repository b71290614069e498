"""A share of a limit that is guaranteed to one namespace, in a storm: what the others take of it, and its refusals.

An arithmetic of its own: it knows the answers of the clients, and when a watch has seen that a pod is deleted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from e2e.stress.clients import Attempt

_THOUSANDTHS = 1000
_AMOUNT = r"(\d+m?)"
_ARITHMETIC = re.compile(
    rf"requested {_AMOUNT} \S+, used {_AMOUNT}, reserved {_AMOUNT}, hard {_AMOUNT}(?: \([^)]*\))?, free {_AMOUNT}"
    rf"(?:, of which {_AMOUNT} (?:is|are) guaranteed to)?"
)
_CODE = "TG201"
_SLACK = 6.0  # seconds until a busy gate has seen that a pod is deleted
_UNKNOWN_SECONDS = 300.0  # a reservation of a creation with an unknown outcome is found by then
_SHOWN = 10


@dataclass(slots=True)
class GuaranteedShare:
    """The answers to the owner of a share in percent, and to the others; pods have one processor each.

    `deleted_at` has the time at which a watch saw the deletion of a pod, by its name. `begun` is when the storm began.
    """

    percent: int
    owned: Sequence[Attempt]
    others: Sequence[Attempt]
    deleted_at: Mapping[str, float]
    begun: float
    _ends: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        """Find until when each creation may be charged."""
        self._ends = {}
        for each in (*self.owned, *self.others):
            if each.status in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS):
                continue
            unknown = float("inf") if each.is_done else each.ended + _UNKNOWN_SECONDS
            self._ends[each.name] = self.deleted_at.get(each.name, unknown) + _SLACK

    @property
    def stored(self) -> int:
        """The number of pods that the owner has created since the storm began."""
        return sum(each.is_done and each.begun >= self.begun for each in self.owned)

    def list_refused(self) -> list[str]:
        """Return the refusals within the share, while all others cannot have had more than the rest of the limit."""
        found = []
        for refusal in self.owned:
            parts = _read_arithmetic(refusal)
            if parts is None or refusal.begun < self.begun:
                continue
            share = parts.hard * self.percent // 100
            own, rest = (self._count_charged(attempts, refusal) for attempts in (self.owned, self.others))
            if own + _THOUSANDTHS <= share and rest <= parts.hard - share:
                at = f"{refusal.begun - self.begun:.1f} s"
                found.append(
                    f"{at}: {own}m of {share}m were charged to the owner, {rest}m to others: {refusal.message}"
                )
        return found[:_SHOWN]

    def _count_charged(self, attempts: Iterable[Attempt], refusal: Attempt) -> int:
        """Return the most that may have been charged for creations, in thousandths."""
        charged = (
            each.begun <= refusal.ended and self._ends.get(each.name, refusal.begun - 1) >= refusal.begun
            for each in attempts
            if each is not refusal
        )
        return sum(charged) * _THOUSANDTHS


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """The amounts that a refusal names, in thousandths; `guaranteed` is the part of `free` that is for others."""

    requested: int
    used: int
    reserved: int
    hard: int
    free: int
    guaranteed: int


def list_unshown(attempts: Iterable[Attempt]) -> list[str]:
    """Return the refusals by the cap whose own arithmetic has room for the pod, or does not add up."""
    found = []
    for attempt in attempts:
        parts = _read_arithmetic(attempt)
        if parts is None:
            if attempt.status == HTTPStatus.FORBIDDEN and _CODE in attempt.message:
                found.append(f"no arithmetic in: {attempt.message}")
            continue
        adds_up = parts.free == max(parts.hard - parts.used - parts.reserved, 0)
        if not adds_up or parts.requested <= parts.free - parts.guaranteed:
            found.append(f"the arithmetic shows no reason: {attempt.message}")
    return found[:_SHOWN]


def _read_arithmetic(attempt: Attempt) -> _Arithmetic | None:
    found = _ARITHMETIC.search(attempt.message)
    if attempt.status != HTTPStatus.FORBIDDEN or found is None:
        return None
    return _Arithmetic(*(_parse_amount(text) for text in found.groups(default="0")))


def _parse_amount(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * _THOUSANDTHS
