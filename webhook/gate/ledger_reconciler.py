"""Keeping ledgers true: the second use case. Promises become tally, or come to nothing; nobody is asked to wait for it.

Any number of replicas may do this at once, each with what it sees and remembers itself: the transitions are such that
none can undo what another knows better (docs/caps.md).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.admission.cap_index import ActiveCap, CapIndex
from webhook.gate.charging import ReadTransition
from webhook.gate.leader_election import Leadership, Standalone
from webhook.gate.usage_lister import UsageLister
from webhook.state.ledger.expire import LiveRead, NotDue, ReservationAges, activate, expire
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recount import apply_limits, recount
from webhook.state.ports import LedgerKey, Ledgers, TransitionResult

IN_FLIGHT_BOUND_SECONDS = 40.0
"""B, the in-flight bound: the API server stores nothing later than that after the gate was asked."""

_RECONCILE_TIMEOUT_SECONDS = 5.0  # for one transaction of a ledger
_OVERDUE_SECONDS = 5.0  # beyond the bound, in which who leads drops what it knows of
_MAX_LIVE_READS = 50  # quorum reads in one visit
_MAX_UNCOUNTED_SECONDS = 5.0  # at most, while others write a ledger and might count it on the way
_MANY_RESERVATIONS = 500  # of so many, some are better dropped at once
_REMOVAL_RETRY_SECONDS = 60.0  # until it is tried again to take a ledger away
_TOO_MANY_RESERVATIONS = 1500  # of so many, whoever sees them drops some: at twice as many nobody is promised room


class PodReader(Protocol):
    """Reads one pod from the quorum, not from a cache."""

    def read_pod_revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The pod's resourceVersion; None when there is none of that name, or another one.

        Raises:
            TallygateError: it cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """One visit: the ledger as it is now, how many promises it lost by expiry, and whether the visit wrote it."""

    ledger: Ledger | None
    expired: int = 0
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class _ReconcileTransition:
    """Everything that may be done to one ledger, in one write."""

    cap: ActiveCap
    key: LedgerKey
    usage_lister: UsageLister
    ages: ReservationAges
    live_reads: Sequence[LiveRead]
    initializer: str
    must_write: bool
    skippable: Ledger | None
    """The ledger as it was at the last visit, if one that others have written since then may be passed over."""
    loaded_since: float | None
    """Since when every replica has had the cap in force, as far as that is known."""

    def __call__(self, stored: Ledger | None) -> TransitionResult[ReconcileResult]:
        if self.usage_lister.is_namespace_deleted(self.key) and (stored is None or _is_empty(stored)):
            return TransitionResult(
                ReconcileResult(None, is_written=stored is not None), accepts_cached=True, is_removal=stored is not None
            )
        before = self._create_ledger() if stored is None else stored
        ledger = self._apply_limits(before)
        if ledger is stored and self._may_skip(stored):
            return TransitionResult(ReconcileResult(stored), accepts_cached=True)
        ledger = self._recount(ledger)
        count_before = len(ledger.reservations)
        for live_read in self.live_reads:
            ledger = expire(ledger, self.ages, live_read)
        if stored is not None and not self.must_write and _is_equivalent(stored, ledger):
            return TransitionResult(ReconcileResult(stored), accepts_cached=True)
        return TransitionResult(
            ReconcileResult(ledger, count_before - len(ledger.reservations), is_written=True), ledger
        )

    def is_stored_in(self, _: Ledger) -> bool:
        """It leaves nothing to be known by; done again, it does no harm."""
        return False

    def _may_skip(self, stored: Ledger) -> bool:
        """Whether others are writing this ledger, and so count it anew as they go: two would be in each other's way."""
        if self.skippable is None or self.must_write or self.live_reads or stored.initializer:
            return False
        return len(stored.reservations) < _MANY_RESERVATIONS and stored != self.skippable

    def _create_ledger(self) -> Ledger:
        """A ledger of unknown past, or an empty one where there is no past."""
        is_new = self.usage_lister.is_new_ledger(self.key)
        return Ledger(self.cap.hard, initializer="" if is_new else self.initializer)

    def _apply_limits(self, ledger: Ledger) -> Ledger:
        if ledger.hard == self.cap.hard and ledger.resources <= self.cap.resources:
            return ledger
        return apply_limits(ledger, self.cap.hard, self.cap.resources)

    def _recount(self, ledger: Ledger) -> Ledger:
        listed_at = (
            self.usage_lister.synced_at() if ledger.initializer else None
        )  # before the view, which goes on meanwhile
        snapshot = self.usage_lister.take_snapshot(self.cap, self.key, ledger)
        if snapshot is None:
            return ledger
        if ledger.initializer:
            activated = (
                None
                if listed_at is None or self._may_miss_pods(listed_at)
                else activate(ledger, self.ages, snapshot, listed_at)
            )
            return (
                ledger
                if activated is None or isinstance(activated, NotDue) or not isinstance(activated, Ledger)
                else activated
            )
        recounted = recount(ledger, snapshot)
        return recounted if isinstance(recounted, Ledger) else ledger

    def _may_miss_pods(self, listed_at: float) -> bool:
        """Whether a pod may be stored later that a replica let in which did not have the cap yet (rule 8)."""
        return self.loaded_since is None or listed_at < self.loaded_since + self.ages.in_flight_bound


class LedgerReconciler:
    """Visits ledgers. Not to be used by two threads at once.

    `caps` gives the caps in force, `maker` a nonce for each ledger made, `bound` B in seconds of `monotonic`; in `ages`
    others may read what it knows of promises. `role` says whether this replica is to keep ledgers, or only to remember
    how old their promises are.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        caps: Callable[[], CapIndex],
        usage_lister: UsageLister,
        ledgers: Ledgers,
        reader: PodReader,
        monotonic: Callable[[], float],
        nonce: Callable[[], str],
        in_flight_bound: float = IN_FLIGHT_BOUND_SECONDS,
        ages: dict[LedgerKey, ReservationAges] | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self._caps = caps
        self._usage_lister = usage_lister
        self._ledgers = ledgers
        self._reader = reader
        self._monotonic = monotonic
        self._nonce = nonce
        self._in_flight_bound = in_flight_bound
        self._leadership = leadership or Standalone()
        self._ages: dict[LedgerKey, ReservationAges] = {} if ages is None else ages
        self._pending: dict[LedgerKey, Ledger] = {}
        self._recounted_at: dict[LedgerKey, float] = {}  # when those were counted anew, as far as visits have seen
        self._with_members: set[LedgerKey] = set()  # those that had members when they were last visited
        self._removal_due: dict[
            LedgerKey, float
        ] = {}  # those whose namespace went, and when they are to be visited again

    def list_ledgers(self, namespaces: Sequence[str]) -> Iterator[tuple[LedgerKey, ActiveCap]]:
        """The ledgers that count pods of these namespaces, by the labels that are known now, or did until now."""
        ledgers: dict[LedgerKey, ActiveCap] = {}
        for namespace in namespaces:
            for cap in self._caps().list_caps():
                key = LedgerKey(cap.key, "" if cap.definition.shared else namespace)
                membership = None if key in ledgers else self._usage_lister.find_membership(cap, key)
                if membership is not None and (namespace in membership.names or key in self._with_members):
                    ledgers[key] = cap
        yield from ledgers.items()

    def list_pending(self) -> tuple[LedgerKey, ...]:
        """The ledgers that had promises, promised nothing yet, or were to go, when they were last visited."""
        now = self._monotonic()
        return tuple({*self._pending, *(key for key, due in self._removal_due.items() if due <= now)})

    def is_leader(self) -> bool:
        """Whether this replica keeps ledgers."""
        return self._leadership.is_leader()

    def count_lost_replicas(self) -> int:
        """Grows when another replica has gone: its promises are only to be found by a look at every ledger."""
        return self._leadership.count_lost_replicas()

    def reconcile(self, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        """Make one ledger, count it anew, and drop what came to nothing, as far as that is known now.

        Where another replica leads, only remember how old its promises are (rule 6); but a ledger that cannot promise
        is everybody's to put right, and so is a promise that the leader leaves past its time: it may not know of it,
        since the promise of a pod that nobody stores changes nothing that is watched.

        Raises:
            BusyError: others were in the way.
            TallygateError: the ledger, or a pod, is out of reach.
        """
        membership, is_deleted = (
            self._usage_lister.find_membership(cap, key),
            self._usage_lister.is_namespace_deleted(key),
        )
        if is_deleted:
            self._removal_due[key] = self._monotonic() + _REMOVAL_RETRY_SECONDS
            self._with_members.discard(key)  # now: where it may not be taken away, that is tried once in a while only
        result = None if self.is_leader() else self._read(key)
        if result is None or _is_urgent(result) or self._is_overdue(key):
            result = self._reconcile(key, cap)
            if is_deleted and result.ledger is not None and _is_empty(result.ledger):
                result = self._reconcile(key, cap)  # it is seen to be worth nothing, and may go
        if result.ledger is None or not is_deleted:
            self._removal_due.pop(key, None)
        (self._with_members.add if membership is not None and membership.names else self._with_members.discard)(key)
        if result.ledger is not None:
            self._usage_lister.record_existing(key)
        return result

    def _is_overdue(self, key: LedgerKey) -> bool:
        """Whether who leads should have dropped, or counted, a promise by now."""
        ages = self._ages.get(key)
        return ages is not None and ages.max_age_seconds(self._monotonic()) > self._in_flight_bound + _OVERDUE_SECONDS

    def _read(self, key: LedgerKey) -> ReconcileResult:
        started_at = self._monotonic()
        result = ReconcileResult(self._ledgers.transact(key, ReadTransition(), started_at + _RECONCILE_TIMEOUT_SECONDS))
        self._cache_result(key, self._ages.get(key) or ReservationAges(self._in_flight_bound), result, started_at)
        return result

    def _reconcile(self, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        ages = self._ages.get(key) or ReservationAges(self._in_flight_bound)
        live_reads = list(self._read_pods(key, ages))
        started_at = self._monotonic()
        recounted_at = self._recounted_at.get(key, -math.inf)
        skippable = self._pending.get(key) if started_at < recounted_at + _MAX_UNCOUNTED_SECONDS else None
        must_write, loaded_since = ages.needs_write(started_at), self._leadership.loaded_everywhere_since(key.cap)
        transition = _ReconcileTransition(
            cap, key, self._usage_lister, ages, live_reads, self._nonce(), must_write, skippable, loaded_since
        )
        result = self._ledgers.transact(key, transition, started_at + _RECONCILE_TIMEOUT_SECONDS)
        self._cache_result(key, ages, result, started_at)
        return result

    def drop(self, key: LedgerKey) -> None:
        """A ledger that no cap in force has any more."""
        self._drop_pending(key)
        self._removal_due.pop(key, None)

    def _drop_pending(self, key: LedgerKey) -> None:
        self._ages.pop(key, None)
        self._pending.pop(key, None)
        self._recounted_at.pop(key, None)

    def _cache_result(self, key: LedgerKey, ages: ReservationAges, result: ReconcileResult, started_at: float) -> None:
        if result.ledger is None or not (result.ledger.reservations or result.ledger.initializer):
            self._drop_pending(key)
            return
        now = self._monotonic()
        if result.is_written:
            ages = ages.confirm_write(started_at, now)
        before = self._pending.get(key)
        if before is None or before.pods_revision != result.ledger.pods_revision:
            self._recounted_at[key] = now
        self._ages[key], self._pending[key] = ages.observe(result.ledger, now), result.ledger
        if result.ledger.initializer and ages.activation_time is not None:
            self._request_progress_after(ages.activation_time)

    def _request_progress_after(self, moment: float) -> None:
        """A ledger waits for a view that is no older than this moment: have one made, if it is not on its way."""
        synced_at = self._usage_lister.synced_at()
        if synced_at is None or synced_at < moment:
            self._usage_lister.request_progress()

    def _read_pods(self, key: LedgerKey, ages: ReservationAges) -> Iterator[LiveRead]:
        """What quorum reads say of the rows that are old enough."""
        ledger = self._pending.get(key)
        for uid in ages.list_confirmed()[:_MAX_LIVE_READS] if ledger else ():
            reservation = ledger.reservations.get(uid) if ledger else None
            if reservation is not None:
                started_at = self._monotonic()
                revision = self._reader.read_pod_revision(reservation.namespace, reservation.name, uid)
                if revision is None or self._usage_lister.has_namespace(
                    reservation.namespace
                ):  # else it is not in any tally yet
                    yield LiveRead(uid, started_at, revision)


def _is_empty(ledger: Ledger) -> bool:
    """Whether it is worth what none is: it counts nothing, and no attempt has a claim that it does not show."""
    return not (ledger.reservations or ledger.used or ledger.initializer)


def _is_urgent(result: ReconcileResult) -> bool:
    ledger = result.ledger
    return ledger is not None and (bool(ledger.initializer) or len(ledger.reservations) >= _TOO_MANY_RESERVATIONS)


def _is_equivalent(before: Ledger, after: Ledger) -> bool:
    """Whether nobody would miss it if the other were not written: all but the revisions that it was counted at."""
    return (
        before.reservations == after.reservations
        and before.used == after.used
        and before.hard == after.hard
        and before.resources == after.resources
        and before.namespaces_hash == after.namespaces_hash
        and before.initializer == after.initializer
    )
