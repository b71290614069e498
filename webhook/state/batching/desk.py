"""What this process knows of one ledger: how it was when it was last read or written here, and who was refused then."""

from dataclasses import dataclass, replace

from webhook.accounting.amounts import Amounts
from webhook.state.batching.line import Line
from webhook.state.ledger import Ledger
from webhook.state.ports import Attempt, Step, T, Versioned

_REMEMBERED_SECONDS = 1.0  # rule 9


@dataclass(frozen=True, slots=True)
class _Refusal:
    """So much was refused `at` a time at which the ledger was seen; `ledger` is the newest that is known since."""

    at: float
    asked: Amounts
    ledger: Ledger | None


class Desk:
    """The line at one ledger and the newest known state of it; None when it must be read. Changed by who serves."""

    def __init__(self) -> None:
        self.line = Line()
        self.known: Versioned | None = None
        self._refusal: _Refusal | None = None

    def saw(self, found: Versioned | None, at: float, refused: Amounts | None) -> None:
        """Be told of the ledger as a read or a write begun `at` showed it, and of what was refused for good."""
        self.known = found
        ledger = found.ledger if found else None
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
        if step.refused is None or refusal.asked.short_of(step.refused):
            return None
        return step
