"""The newest state of every ledger that this process has written or looked at."""

from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import NamedTuple

from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult


class Seen(NamedTuple):
    """A ledger as it was `at` a moment of the monotonic clock."""

    ledger: Ledger
    at: float


class SeenLedgers:
    """A `WriteObserver` that remembers ledgers; `monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._ledgers: dict[LedgerKey, Seen] = {}
        self._unsettled: set[LedgerKey] = set()

    def record_write(self, write: LedgerWrite) -> None:
        """A ledger is as it was written now."""
        if write.result is WriteResult.STORED:
            self.saw(write.key, write.ledger)

    def saw(self, key: LedgerKey, ledger: Ledger) -> None:
        """A ledger was found so."""
        seen = Seen(ledger, self._monotonic())
        with self._lock:
            self._ledgers[key] = seen
            (self._unsettled.add if ledger.reservations or ledger.initializer else self._unsettled.discard)(key)

    def keep_only(self, caps: Collection[str]) -> None:
        """Forget the ledgers of all but these caps' keys."""
        with self._lock:
            self._ledgers = {key: seen for key, seen in self._ledgers.items() if key.cap in caps}
            self._unsettled = {key for key in self._unsettled if key.cap in caps}

    def all(self) -> Mapping[LedgerKey, Seen]:
        """Every one, as of now."""
        with self._lock:
            return dict(self._ledgers)

    def unsettled(self) -> frozenset[LedgerKey]:
        """Those that promise something, or nothing yet."""
        with self._lock:
            return frozenset(self._unsettled)

    def now(self) -> float:
        """The moment that `at` is to be compared with."""
        return self._monotonic()
