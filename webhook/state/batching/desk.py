"""What this process knows of one ledger: how it was when it was last read or written here, and who was refused then."""

from dataclasses import dataclass, replace
from math import inf

from webhook.accounting.amounts import Amounts
from webhook.state.batching.line import Line
from webhook.state.ledger import Ledger
from webhook.state.ports import Attempt, Step, T, Versioned

_REMEMBERED_SECONDS = 1.0  # rule 9
_FRESH_SECONDS = 10.0
_MOST_BLIND = 20


@dataclass(frozen=True, slots=True)
class _Refusal:
    """So much was refused `at` a time at which the ledger was seen; `ledger` is the newest that is known since."""

    at: float
    asked: Amounts
    ledger: Ledger | None


class Desk:
    """The line at one ledger and the newest state of it that is known. Changed by who serves."""

    def __init__(self) -> None:
        self.line = Line()
        self.known: Versioned | None = None
        self._is_doubtful = True
        self._is_contested = False
        self._blind = 0
        self._seen_at = -inf
        self._refusal: _Refusal | None = None

    def may_write_blind(self, crowd: int) -> bool:
        """Whether a write may be tried on what is known, with so many waiting, or the ledger is better read first.

        Where others have just written, most likely they have again. And under a crowd one write follows the other so
        closely that another replica, which has to read before it writes, would never come in between.
        """
        return not (self._is_doubtful or self._is_contested or (crowd > 1 and self._blind >= _MOST_BLIND))

    def is_fresh(self, now: float) -> bool:
        """Whether what is known was so a moment ago: good enough for what is sure anyhow, but not for ever."""
        return now - self._seen_at <= _FRESH_SECONDS

    def doubt(self) -> None:
        """What is known may not be so any more."""
        self._is_doubtful = True

    def read(self, found: Versioned | None) -> None:
        """Be told of the ledger as a read shows it."""
        self._is_contested = self.known is not None and (found is None or found.version != self.known.version)
        self._blind = 0
        self.known = found

    def removed(self) -> None:
        """Be told that the ledger was taken away here."""
        self.known = None

    def wrote(self, written: Versioned) -> None:
        """Be told of the ledger as it was written here."""
        self._blind += 1
        self.known = written

    def saw(self, at: float, refused: Amounts | None) -> None:
        """Be told that what is known was so after `at`, and of what was refused for good by it."""
        self._is_doubtful, self._seen_at = False, at
        ledger = self.known.ledger if self.known else None
        if refused is not None:
            self._refusal = _Refusal(at, refused, ledger)
        elif self._refusal is not None:
            self._refusal = replace(self._refusal, ledger=ledger)

    def recalled(self, attempt: Attempt[T], now: float) -> Step[T] | None:
        """A refusal that needs no new look: of who asks for at least as much as was refused a moment ago (rule 9).

        It is this attempt's own, by the arithmetic of the newest ledger known; where that has room, there is none.
        """
        refusal = self._refusal
        if refusal is None or now - refusal.at > _REMEMBERED_SECONDS:
            return None
        step = attempt(refusal.ledger)
        if step.refused is None or refusal.asked.find_shortfall(step.refused):
            return None
        return step
