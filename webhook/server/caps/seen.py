"""The newest state of every ledger that this process has written or looked at."""

from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import NamedTuple

from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult


class ObservedLedger(NamedTuple):
    """A ledger as it was `at` a moment of the monotonic clock."""

    ledger: Ledger
    observed_at: float


class ObservedLedgers:
    """A `WriteObserver` that remembers ledgers; `monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._ledgers: dict[LedgerKey, ObservedLedger] = {}
        self._pending: set[LedgerKey] = set()

    def record_write(self, write: LedgerWrite) -> None:
        """A ledger is as it was written now."""
        if write.result is WriteResult.STORED:
            self.record(write.key, write.ledger)

    def record(self, key: LedgerKey, ledger: Ledger) -> None:
        """A ledger was found so."""
        observed = ObservedLedger(ledger, self._monotonic())
        with self._lock:
            self._ledgers[key] = observed
            (self._pending.add if ledger.reservations or ledger.initializer else self._pending.discard)(key)

    def retain_caps(self, caps: Collection[str]) -> None:
        """Forget the ledgers of all but these caps' keys."""
        with self._lock:
            self._ledgers = {key: observed for key, observed in self._ledgers.items() if key.cap in caps}
            self._pending = {key for key in self._pending if key.cap in caps}

    def list_all(self) -> Mapping[LedgerKey, ObservedLedger]:
        """Every one, as of now."""
        with self._lock:
            return dict(self._ledgers)

    def list_pending(self) -> frozenset[LedgerKey]:
        """Those that promise something, or nothing yet."""
        with self._lock:
            return frozenset(self._pending)

    def read_clock(self) -> float:
        """The moment that `at` is to be compared with."""
        return self._monotonic()
