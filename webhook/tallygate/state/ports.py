"""Ports of the state: ledgers, their store, leases, records of capacities, and the namespaces of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.errors import TallygateError
from tallygate.state.ledger.ledger import Ledger

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RetryLaterError(TallygateError):
    """No decision yet, and a retry is right: there was no time, or a ledger must be counted first."""


class UnseenClassError(RetryLaterError):
    """A device class is not seen by this replica that decides what is charged: nothing was read or written."""


class UnseenTemplateError(RetryLaterError):
    """A template of claims is not seen by this replica that decides what is charged: nothing was read or written."""


class UnknownDeviceError(RetryLaterError):
    """A device is not known to this replica that decides what is charged: nothing was read or written."""


class LedgerFullError(RetryLaterError):
    """The ledger would exceed the size limit of its store: reservations must be counted first. Nothing was written."""


class StoreUnavailableError(TallygateError):
    """The store did not respond, or not correctly: the ledger is unknown, and nothing was written."""


class StoreUnreachableError(StoreUnavailableError):
    """The store gave no answer, or one that a moment later may be another: it restarts, or the network failed."""


class UnknownOutcomeError(StoreUnreachableError):
    """A write was sent, and may be stored now or later: read the ledger (rule 1)."""


class LedgerKey(msgspec.Struct, frozen=True):
    """The key of one ledger: the cap's key (name and a hash of its definition), and the namespace unless shared."""

    cap: str
    namespace: str


class TransitionResult(msgspec.Struct, Generic[T_co], frozen=True):
    """The result of applying one transition to one version of a ledger.

    `outcome` is for the caller, and is valid once `ledger` is stored. Without a `ledger` nothing is stored, and the
    outcome is valid if the ledger is current: `Ledgers` then read it, unless the outcome accepts a cached ledger
    (`accepts_cached`), to which others may have written in the last seconds.

    `rejected_amounts` are the amounts that exceed the cap, by name. A rejection may be reused for a moment, for callers
    that request at least as much (rule 9).

    If `is_removal`, the ledger equals a missing one, and the outcome is valid once it is deleted.
    """

    outcome: T_co
    ledger: Ledger | None = None
    accepts_cached: bool = False
    rejected_amounts: Amounts | None = None
    is_removal: bool = False


class Transition(Protocol[T_co]):
    """A transition of one ledger that a caller waits for. It is pure: any thread may apply it several times."""

    def __call__(self, ledger: Ledger | None, /) -> TransitionResult[T_co]:
        """Return the result on this ledger; None is a ledger that does not exist."""
        ...

    def is_stored_in(self, ledger: Ledger, /) -> bool:
        """Return whether this ledger shows that the write of this very attempt is stored (rule 1)."""
        ...


class Ledgers(Protocol):
    """The ledgers, each with one change at a time."""

    @property
    def is_standalone(self) -> bool:
        """True if only this process writes them: a ledger that is missing never existed."""
        ...

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:
        """Apply the transition before `deadline` (monotonic seconds), and return its outcome once it is valid.

        Raises:
            RetryLaterError: if others were in the way until the deadline, or the ledger is full. After this and after
                any other failure the write may be stored, now or later: release its reservation.
            StoreUnavailableError: if the store is unavailable.
        """
        ...


class VersionedLedger(msgspec.Struct, frozen=True):
    """A ledger as it was read or written; `version` identifies this state of it and no other."""

    ledger: Ledger
    version: str


class LedgerStore(Protocol):
    """The store that replicas share: every write is one compare-and-swap. `timeout` is in seconds, for one call."""

    def read(self, key: LedgerKey, timeout: float) -> VersionedLedger | None:
        """Return the ledger as it is after this call began, or None if it does not exist.

        Raises:
            RetryLaterError: if the store is overloaded.
            StoreUnavailableError: if the ledger cannot be read.
        """
        ...

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, timeout: float) -> str | None:
        """Store the ledger if it is still at `version` (None: if it does not exist).

        Return its new version, or None if the ledger has changed.

        Raises:
            RetryLaterError: if the store is overloaded; the ledger is not stored.
            LedgerFullError: if it is too large to be stored.
            UnknownOutcomeError: if it may be stored.
            StoreUnavailableError: if it is not stored.
        """
        ...

    def remove(self, key: LedgerKey, expected: VersionedLedger, timeout: float) -> bool:
        """Remove the ledger if it is unchanged, and return whether it is deleted, by this call or before.

        Raises:
            RetryLaterError, StoreUnavailableError: if it may still exist.
        """
        ...


class WriteResult(StrEnum):
    """The result of one write to a store: `CONFLICT` after a write by others, `UNKNOWN` if it may be stored."""

    STORED = "stored"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    FAILED = "failed"


class LedgerWrite(msgspec.Struct, frozen=True):
    """One write to a store: the ledgers before and after, the number of callers, the duration and the result."""

    key: LedgerKey
    before: Ledger | None
    ledger: Ledger
    callers: int
    duration_seconds: float
    result: WriteResult


class WriteObserver(Protocol):
    """An observer of writes, for metrics.

    The thread that waits for the write calls it: it must be fast, and must not fail.
    """

    def record_write(self, write: LedgerWrite, /) -> None:
        """Record a completed write."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that expires unless it is renewed: its `holder`, and the seconds for which each renewal is valid.

    It does not contain the time of its renewal: each replica measures from when it first saw a `version`, by its own
    clock. `caps` are the hashed keys of the caps that are active in the holder, None if it lists none. `transitions`
    counts changes of the holder. `acquire_time` is the time of the claim, for users to read; empty means the time of
    this write.
    """

    name: str
    holder: str
    duration_seconds: float
    version: str = ""
    caps: frozenset[str] | None = None
    transitions: int = 0
    acquire_time: str = ""


class LeaseStore(Protocol):
    """A store of the replicas' leases.

    A version identifies a state of a lease; an empty one means that the lease does not exist.
    """

    def list_leases(self) -> Sequence[Lease]:
        """Return every lease of this gate's replicas, as they are after this call began.

        Raises:
            RetryLaterError, StoreUnavailableError: if they cannot be read.
        """
        ...

    def read(self, name: str) -> Lease | None:
        """Return one lease as it is after this call began, or None if it does not exist.

        Raises:
            RetryLaterError, StoreUnavailableError: if it cannot be read.
        """
        ...

    def write(self, lease: Lease) -> bool:
        """Renew or claim the lease, if it is still at its version, and return whether it is stored.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not stored, or the outcome is unknown.
        """
        ...

    def remove(self, lease: Lease) -> None:
        """Remove the lease, if it is still at its version.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not removed, or the outcome is unknown.
        """
        ...


class RecordedStep(NamedTuple):
    """A capacity that was measured, and the time of the Unix epoch at which it ended; None if it had not."""

    amount: int
    ended_at: float | None


class RecordedCapacity(NamedTuple):
    """The steps of a cap by name, the largest first; `selection` identifies what its capacities are of."""

    selection: str
    steps: Mapping[str, Sequence[RecordedStep]]


class CapacityRecord(NamedTuple):
    """The measurements of the leader at a time of the Unix epoch, by the name of a cap."""

    written_at: float
    caps: Mapping[str, RecordedCapacity]


class NamespaceLister(Protocol):
    """A source of namespaces."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Return the namespace's labels, or None if the namespace is unknown."""
        ...
