"""What the gate needs to remember and to know, whoever keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.errors import TallygateError
from webhook.state.ledger.ledger import Ledger

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RetryLaterError(TallygateError):
    """Nothing is decided, and trying again is right: there was no time, or a ledger must first be counted."""


class LedgerFullError(RetryLaterError):
    """The ledger would be larger than its store takes: promises must settle first. Nothing was written."""


class StoreUnavailableError(TallygateError):
    """The store did not answer, or not as it should: nothing is known of the ledger, and nothing was written."""


class UnknownOutcomeError(StoreUnavailableError):
    """It cannot be told whether a write was done, or is still to be done: read again (rule 1)."""


class LedgerKey(msgspec.Struct, frozen=True):
    """Names one ledger: the cap's key (name and a hash of what it counts), and its namespace unless it is shared."""

    cap: str
    namespace: str


class TransitionResult(msgspec.Struct, Generic[T_co], frozen=True):
    """What an attempt comes to on one state of a ledger.

    `outcome` is the caller's, and holds once `ledger` is stored. Where that is None there is nothing to store, and it
    holds if this is how the ledger is now: who keeps it then looks again, unless the outcome is `sure` anyhow, though
    others may have written in the last seconds.
    `refused` is what there was no room for, by name: such an outcome may be remembered for a moment, for who asks for
    at least as much (rule 9). Where the ledger `removes`, it is worth what none is, and the outcome holds once it has
    gone.
    """

    outcome: T_co
    ledger: Ledger | None = None
    accepts_cached: bool = False
    rejected_amounts: Amounts | None = None
    is_removal: bool = False


class Transition(Protocol[T_co]):
    """One transition that somebody waits for. Pure: it may be called again and again, in any thread."""

    def __call__(self, ledger: Ledger | None, /) -> TransitionResult[T_co]:
        """What it makes of the ledger, or of none where there is none yet."""
        ...

    def is_stored_in(self, ledger: Ledger, /) -> bool:
        """Whether this ledger shows that what this very attempt wrote is stored (rule 1)."""
        ...


class Ledgers(Protocol):
    """Changes ledgers, one at a time for each."""

    @property
    def is_standalone(self) -> bool:
        """Whether this process alone keeps them: a ledger that is not there was never there."""
        ...

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:
        """Carry the attempt out, before `deadline` (monotonic seconds), and give its outcome once that holds.

        Raises:
            BusyError: others were in the way until the deadline, or the ledger is full. After this and after any
                other failure the attempt may have been written, or may still be: withdraw what it promised.
            StoreUnavailableError: the store is out of reach.
        """
        ...


class VersionedLedger(msgspec.Struct, frozen=True):
    """A ledger as it was read or written; `version` names this state of it and no other."""

    ledger: Ledger
    version: str


class LedgerStore(Protocol):
    """Where replicas meet: every write is one compare-and-swap. `patience` is how many seconds a call may take."""

    def read(self, key: LedgerKey, timeout: float) -> VersionedLedger | None:
        """The ledger as it is after this call began, or None when there is none.

        Raises:
            BusyError: it cannot be told, since the store has too much to do.
            StoreUnavailableError: it cannot be told.
        """
        ...

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, timeout: float) -> str | None:
        """Store the ledger if it is still at `version` (None: if there is none); its version then, or None if not.

        Raises:
            BusyError: it was not stored, since the store has too much to do.
            LedgerFullError: it is too large to be stored.
            LostAnswerError: it may have been stored.
            StoreUnavailableError: it was not stored.
        """
        ...

    def remove(self, key: LedgerKey, expected: VersionedLedger, timeout: float) -> bool:
        """Take the ledger away if it is still as it was found; whether it has gone, by this or before.

        Raises:
            BusyError, StoreUnavailableError: it may still be there.
        """
        ...


class WriteResult(StrEnum):
    """How one write to a store ended: `conflict` when others had written, `lost` when it cannot be told."""

    STORED = "stored"
    CONFLICT = "conflict"
    UNKNOWN = "lost"
    FAILED = "failed"


class LedgerWrite(msgspec.Struct, frozen=True):
    """One write to a store: what was to be stored in the place of what, for how many callers, in how many seconds."""

    key: LedgerKey
    before: Ledger | None
    ledger: Ledger
    callers: int
    duration_seconds: float
    result: WriteResult


class WriteObserver(Protocol):
    """Is told of writes, for metrics. Called by who waits for the write: it must be quick, and must not fail."""

    def record_write(self, write: LedgerWrite, /) -> None:
        """A write has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that lapses unless it is renewed: its `holder`, and for how many seconds each renewal is good.

    How long ago it was renewed is not in it: everybody goes by when they saw another `version`, by their own clock.
    `caps` are marks of the caps that the holder has in force, None where it does not say; `changes` counts holders.
    `acquired` is when it was claimed, for people to read; empty: with this write.
    """

    name: str
    holder: str
    duration_seconds: float
    version: str = ""
    caps: frozenset[str] | None = None
    transitions: int = 0
    acquire_time: str = ""


class LeaseStore(Protocol):
    """Where replicas see each other's leases. A version names a state of one; an empty one means that there is none."""

    def list_leases(self) -> Sequence[Lease]:
        """Every lease of this gate's replicas, as they are after this call began.

        Raises:
            BusyError, StoreUnavailableError: they cannot be told.
        """
        ...

    def write(self, lease: Lease) -> bool:
        """Renew or claim the lease, if it is still at its version; whether it was.

        Raises:
            BusyError, StoreUnavailableError: it was not, or that cannot be told.
        """
        ...

    def remove(self, lease: Lease) -> None:
        """Take it away, if it is still at its version.

        Raises:
            BusyError, StoreUnavailableError: it was not, or that cannot be told.
        """
        ...


class NamespaceLister(Protocol):
    """Knows namespaces."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when it is not known."""
        ...
