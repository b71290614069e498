"""A store by compare-and-swap in a dict, in which whatever is scripted happens, and a clock that says who looked."""

import itertools
from collections.abc import Callable, Iterable
from threading import Lock, Semaphore

from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError, UnknownOutcomeError, VersionedLedger

KEY = LedgerKey("gpus-0123456789", "team-a")
Happening = Callable[["ScriptedStore"], None]


class ScriptedStore:
    """A `LedgerStore` of one ledger. Before the n-th read or write the n-th happening of its script happens."""

    def __init__(
        self, ledger: Ledger | None = None, reads: Iterable[Happening] = (), writes: Iterable[Happening] = ()
    ) -> None:
        self._lock = Lock()
        self._revisions = itertools.count(1)
        self._reads, self._writes = iter(reads), iter(writes)
        self.stored = None if ledger is None else VersionedLedger(ledger, "0")
        self.calls: list[str] = []
        self.patiences: list[float] = []
        self.late: list[Callable[[], object]] = []

    def read(self, _: LedgerKey, patience: float) -> VersionedLedger | None:
        """The ledger."""
        self.calls.append("read")
        self.patiences.append(patience)
        next(self._reads, nothing)(self)
        with self._lock:
            return self.stored

    def write(self, _: LedgerKey, ledger: Ledger, version: str | None, patience: float) -> str | None:
        """Compare and swap."""
        self.calls.append("write")
        self.patiences.append(patience)
        try:
            next(self._writes, nothing)(self)
        except Done:
            self.put(ledger, version)
            raise UnknownOutcomeError("connection reset") from None
        except Pending:
            self.late.append(lambda: self.put(ledger, version))
            raise UnknownOutcomeError("timed out") from None
        return self.put(ledger, version)

    def remove(self, _: LedgerKey, found: VersionedLedger, patience: float) -> bool:
        """Compare and delete."""
        self.calls.append("remove")
        self.patiences.append(patience)
        next(self._writes, nothing)(self)
        with self._lock:
            is_same = self.stored is not None and self.stored.version == found.version
            self.stored = None if is_same else self.stored
        return is_same

    def put(self, ledger: Ledger, version: str | None) -> str | None:
        """Compare and swap, with nothing in between."""
        with self._lock:
            if (self.stored.version if self.stored else None) != version:
                return None
            self.stored = VersionedLedger(ledger, f"{next(self._revisions)}")
            return self.stored.version

    def change(self, ledger: Ledger) -> None:
        """Let somebody else write."""
        assert self.put(ledger, self.stored.version if self.stored else None)

    @property
    def now(self) -> Ledger:
        """What is stored."""
        assert self.stored is not None
        return self.stored.ledger


class Done(Exception):  # noqa: N818  # not an error
    """The write is done, and its answer is lost."""


class Pending(Exception):  # noqa: N818  # not an error
    """The write is on its way, and lands when the test lets it."""


def nothing(_: ScriptedStore) -> None:
    """As ever."""


def lost(_: ScriptedStore) -> None:
    """Lose the request."""
    raise UnknownOutcomeError("connection reset")


def done(_: ScriptedStore) -> None:
    """Lose the answer."""
    raise Done


def pending(_: ScriptedStore) -> None:
    """Hold the request up."""
    raise Pending


def down(_: ScriptedStore) -> None:
    """Be out of reach."""
    raise StoreUnavailableError("connection refused")


def throttled(_: ScriptedStore) -> None:
    """Have too much to do."""
    raise RetryLaterError("too many requests")


class Clock:
    """Seconds that stand still unless told; `looks` counts how often anybody has asked."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.looks = Semaphore(0)

    def __call__(self) -> float:
        """Seconds."""
        self.looks.release()
        return self.seconds
