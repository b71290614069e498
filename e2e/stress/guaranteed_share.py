"""A share of a limit that is guaranteed to one namespace, in a storm: whether its refusals are founded.

An arithmetic of its own. Within the share a refusal is founded only if others have more than the rest of the limit: so
it is after a fall of the limit, since nothing is taken back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from e2e.stress.clients import Attempt
from e2e.stress.ledger_history import LedgerHistory

_THOUSANDTHS = 1000
_AMOUNT = r"(\d+m?)"
_ARITHMETIC = re.compile(
    rf"requested {_AMOUNT} \S+, used {_AMOUNT}, reserved {_AMOUNT}, hard {_AMOUNT}(?: \([^)]*\))?, free {_AMOUNT}"
    rf"(?:, of which {_AMOUNT} (?:is|are) guaranteed to)?"
)
_CODE = "TG201"
_LATE = (0.5, 2.0, 10.0)
"""How much later than the gate the watches may have seen something, in seconds: the first that explains a refusal."""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class GuaranteedShare:
    """The answers to the owner of a share in percent, from `begun` to `ended`, and the ledger by which they came."""

    percent: int
    owned: Sequence[Attempt]
    ledger: LedgerHistory
    begun: float
    ended: float

    @property
    def stored(self) -> int:
        """The number of pods that the owner has created since the storm began."""
        return sum(each.is_done and each.begun >= self.begun for each in self.owned)

    @property
    def refused(self) -> int:
        """The number of refusals that are compared with the ledger and the pods."""
        return sum(1 for _ in self._list_refusals())

    def list_unfounded(self) -> list[str]:
        """Return the refusals within the share while others leave it, and those that no count of the pods explains.

        A refusal names what was used and reserved. What of that was the owner's is in the versions of the ledger, and
        in the counts of the pods, that give these two amounts.
        """
        if not self.ledger.pods.is_whole:
            return ["the watch of the pods has missed something, so that refusals cannot be compared with counts"]
        found = []
        for refusal, parts in self._list_refusals():
            own = self._find_own(refusal, parts)
            share = parts.hard * self.percent // 100
            at = f"{refusal.begun - self.begun:.1f} s"
            if not own:
                found.append(f"{at}: no count of the pods gives these amounts: {refusal.message}")
            elif all(_is_within(each, parts, share) for each in own):
                found.append(f"{at}: the owner had {min(own)}m of {share}m, and others left it: {refusal.message}")
        return [*found[:_SHOWN], *self.ledger.list_miscounted()[:_SHOWN]]

    def _list_refusals(self) -> Iterator[tuple[Attempt, "_Arithmetic"]]:
        for each in self.owned:
            parts = _read_arithmetic(each)
            if parts is not None and self.begun <= each.begun and each.ended <= self.ended:
                yield each, parts

    def _find_own(self, refusal: Attempt, parts: "_Arithmetic") -> set[int]:
        """Return what may have been the owner's of the amounts in a refusal; empty if nothing explains these."""
        for late in _LATE:
            candidates = self.ledger.list_parts(refusal.begun, refusal.ended + late)
            own = {each.own for each in candidates if (each.used, each.reserved) == (parts.used, parts.reserved)}
            if own:
                return own
        return set()


def _is_within(own: int, parts: "_Arithmetic", share: int) -> bool:
    """Return whether a request stays within the share of its namespace, and others have at most the rest."""
    return own + parts.requested <= share and parts.used + parts.reserved - own <= parts.hard - share


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
