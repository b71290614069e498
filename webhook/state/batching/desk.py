"""What this process knows of one ledger: how it was when it was last read or written here, and who was refused then."""

from dataclasses import dataclass, replace
from math import inf

from webhook.accounting.amounts import Amounts
from webhook.state.batching.line import WaitQueue
from webhook.state.ledger import Ledger
from webhook.state.ports import T, Transition, TransitionResult, VersionedLedger

_REJECTION_CACHE_SECONDS = 1.0  # rule 9
_FRESH_SECONDS = 10.0
_MAX_WRITES_WITHOUT_READ = 20


@dataclass(frozen=True, slots=True)
class _CachedRejection:
    """So much was refused `at` a time at which the ledger was seen; `ledger` is the newest that is known since."""

    confirmed_at: float
    rejected_amounts: Amounts
    ledger: Ledger | None


class CachedLedger:
    """The line at one ledger and the newest state of it that is known. Changed by who serves."""

    def __init__(self) -> None:
        self.queue = WaitQueue()
        self.latest: VersionedLedger | None = None
        self._is_stale = True
        self._is_contested = False
        self._writes_since_read = 0
        self._confirmed_at = -inf
        self._rejection: _CachedRejection | None = None

    def may_write_without_read(self, callers: int) -> bool:
        """Whether a write may be tried on what is known, with so many waiting, or the ledger is better read first.

        Where others have just written, most likely they have again. And under a crowd one write follows the other so
        closely that another replica, which has to read before it writes, would never come in between.
        """
        return not (
            self._is_stale
            or self._is_contested
            or (callers > 1 and self._writes_since_read >= _MAX_WRITES_WITHOUT_READ)
        )

    def is_fresh(self, now: float) -> bool:
        """Whether what is known was so a moment ago: good enough for what is sure anyhow, but not for ever."""
        return now - self._confirmed_at <= _FRESH_SECONDS

    def mark_stale(self) -> None:
        """What is known may not be so any more."""
        self._is_stale = True

    def record_read(self, latest: VersionedLedger | None) -> None:
        """Be told of the ledger as a read shows it."""
        self._is_contested = self.latest is not None and (latest is None or latest.version != self.latest.version)
        self._writes_since_read = 0
        self.latest = latest

    def record_removal(self) -> None:
        """Be told that the ledger was taken away here."""
        self.latest = None

    def record_write(self, latest: VersionedLedger) -> None:
        """Be told of the ledger as it was written here."""
        self._writes_since_read += 1
        self.latest = latest

    def confirm(self, confirmed_at: float, rejected_amounts: Amounts | None) -> None:
        """Be told that what is known was so after `at`, and of what was refused for good by it."""
        self._is_stale, self._confirmed_at = False, confirmed_at
        ledger = self.latest.ledger if self.latest else None
        if rejected_amounts is not None:
            self._rejection = _CachedRejection(confirmed_at, rejected_amounts, ledger)
        elif self._rejection is not None:
            self._rejection = replace(self._rejection, ledger=ledger)

    def reuse_rejection(self, transition: Transition[T], now: float) -> TransitionResult[T] | None:
        """A refusal that needs no new look: of who asks for at least as much as was refused a moment ago (rule 9).

        It is this attempt's own, by the arithmetic of the newest ledger known; where that has room, there is none.
        """
        rejection = self._rejection
        if rejection is None or now - rejection.confirmed_at > _REJECTION_CACHE_SECONDS:
            return None
        result = transition(rejection.ledger)
        if result.rejected_amounts is None or rejection.rejected_amounts.find_shortfall(result.rejected_amounts):
            return None
        return result
