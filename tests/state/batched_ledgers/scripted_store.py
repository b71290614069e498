"""A store of one ledger by compare-and-swap with scripted effects, and a clock that counts its reads."""

import itertools
from collections.abc import Callable, Iterable
from threading import Lock, Semaphore

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import (
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionedLedger,
)

KEY = LedgerKey("gpus-0123456789", "team-a")
Effect = Callable[["ScriptedStore"], None]


class ScriptedStore:
    """A `LedgerStore` of one ledger, which runs the n-th effect of its script before the n-th read or write."""

    def __init__(
        self, ledger: Ledger | None = None, reads: Iterable[Effect] = (), writes: Iterable[Effect] = ()
    ) -> None:
        self._lock = Lock()
        self._revisions = itertools.count(1)
        self._reads, self._writes = iter(reads), iter(writes)
        self.stored = None if ledger is None else VersionedLedger(ledger, "0")
        self.calls: list[str] = []
        self.timeouts: list[float] = []
        self.delayed: list[Callable[[], object]] = []

    def read(self, _: LedgerKey, timeout: float) -> VersionedLedger | None:
        """Return the stored ledger with its version."""
        self.calls.append("read")
        self.timeouts.append(timeout)
        next(self._reads, do_nothing)(self)
        with self._lock:
            return self.stored

    def write(self, _: LedgerKey, ledger: Ledger, version: str | None, timeout: float) -> str | None:
        """Run the next effect, then compare and swap."""
        self.calls.append("write")
        self.timeouts.append(timeout)
        try:
            next(self._writes, do_nothing)(self)
        except ResponseLost:
            self.put(ledger, version)
            raise UnknownOutcomeError("connection reset") from None
        except RequestDelayed:
            self.delayed.append(lambda: self.put(ledger, version))
            raise UnknownOutcomeError("timed out") from None
        return self.put(ledger, version)

    def remove(self, _: LedgerKey, found: VersionedLedger, timeout: float) -> bool:
        """Run the next effect, then compare and delete."""
        self.calls.append("remove")
        self.timeouts.append(timeout)
        next(self._writes, do_nothing)(self)
        with self._lock:
            is_same = self.stored is not None and self.stored.version == found.version
            self.stored = None if is_same else self.stored
        return is_same

    def put(self, ledger: Ledger, version: str | None) -> str | None:
        """Compare and swap without an effect."""
        with self._lock:
            if (self.stored.version if self.stored else None) != version:
                return None
            self.stored = VersionedLedger(ledger, f"{next(self._revisions)}")
            return self.stored.version

    def change(self, ledger: Ledger) -> None:
        """Write as another replica."""
        assert self.put(ledger, self.stored.version if self.stored else None)

    @property
    def ledger(self) -> Ledger:
        """The stored ledger."""
        assert self.stored is not None
        return self.stored.ledger


class ResponseLost(Exception):  # noqa: N818  # not an error
    """The write is stored, and its response is lost."""


class RequestDelayed(Exception):  # noqa: N818  # not an error
    """The write is on its way, and is stored when the test delivers it."""


def do_nothing(_: ScriptedStore) -> None:
    """Leave the call as it is."""


def lose_request(_: ScriptedStore) -> None:
    """Lose the request of a write."""
    raise UnknownOutcomeError("connection reset")


def lose_response(_: ScriptedStore) -> None:
    """Lose the response of a write."""
    raise ResponseLost


def delay_request(_: ScriptedStore) -> None:
    """Delay the request of a write."""
    raise RequestDelayed


def fail_unavailable(_: ScriptedStore) -> None:
    """Fail because the store is unavailable."""
    raise StoreUnavailableError("connection refused")


def fail_throttled(_: ScriptedStore) -> None:
    """Fail because the store is busy."""
    raise RetryLaterError("too many requests")


class Clock:
    """Seconds that a test sets; the semaphore `reads` counts the reads of the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.reads = Semaphore(0)

    def __call__(self) -> float:
        """Return the seconds that the test set."""
        self.reads.release()
        return self.seconds
