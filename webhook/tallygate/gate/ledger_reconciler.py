"""Background reconciliation of ledgers: reservations are counted or expire, and no request waits for it.

Several replicas may reconcile at once, each from its own watches and reservation ages. No transition can undo a change
that another replica bases on newer data (docs/design/caps.md).
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.leader_election import Leadership, Standalone
from tallygate.state.ledger.expire import (
    GANG_BOUND_SECONDS,
    REMAPPING,
    LiveRead,
    ReservationAges,
    activate,
    confirm_mappings,
    expire,
)
from tallygate.state.ledger.ledger import Activation, Ledger, Reservation, Surge
from tallygate.state.ledger.recount import UsageSnapshot, apply_guarantees, apply_limits, recount
from tallygate.state.ports import LedgerKey, Ledgers, RetryLaterError, StoreUnavailableError, TransitionResult

IN_FLIGHT_BOUND_SECONDS = 40.0
"""B, the in-flight bound: the API server stores an object at most that long after it sent the review to the gate."""

_RECONCILE_TIMEOUT_SECONDS = 5.0  # for one transaction of a ledger
_OVERDUE_SECONDS = 5.0  # after the bound, for the leader to expire the reservations that it has observed
_EXPECTED_SECONDS = 5  # a smaller change of the expected time is not written
_MAX_LIVE_READS = 50  # quorum reads in one reconciliation
_MAX_UNCOUNTED_SECONDS = 5.0  # longest time without a recount, while others write a ledger and may recount it
_MANY_RESERVATIONS = 500  # from this number on, a ledger is recounted at once
_REMOVAL_RETRY_SECONDS = 60.0  # until the next try to remove a ledger
_TOO_MANY_RESERVATIONS = 1500  # from this number on, any replica recounts; at twice as many a ledger reserves nothing


class ConsumerReader(Protocol):
    """A reader of one pod or claim from the quorum, not from a cache."""

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Return the object's resourceVersion; None if none has that name, or the one of that name has another UID.

        Raises:
            TallygateError: if the object cannot be read.
        """
        ...


WorkloadStateReader = Callable[[str, Reservation], tuple[int | None, bool]]
"""Returns the revision of the workload with this UID and reservation, None without it, and whether it may start pods.

A workload that cannot be read may start some.
"""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The ledger after one reconciliation, the number of expired reservations, and whether it was written.

    It `needs_record` if the ledger is missing, and the record was not read that tells a new cap from a lost ledger.
    """

    ledger: Ledger | None
    expired: int = 0
    is_written: bool = False
    needs_record: bool = False


@dataclass(frozen=True, slots=True)
class _ReconcileTransition:
    """A transition that applies limits, recounts, activates and expires one ledger in one write."""

    cap: ActiveCap
    key: LedgerKey
    usage_lister: UsageLister
    ages: ReservationAges
    live_reads: Sequence[LiveRead]
    initializer: str
    must_write: bool
    skippable: Ledger | None
    """The ledger at the last reconciliation, if a ledger that others have written since then may be skipped."""
    loaded_since: float | None
    """Time since which the cap is active in every known replica; None if it is not yet."""
    is_recorded: bool
    """Whether the record has the cap: without it no ledger with a past becomes active (rule 7)."""
    expected_at: int
    """The time, in seconds of the Unix epoch, at which a ledger that is not active is expected to be."""
    is_cap_new: bool | None
    """Whether the cap was never active, by a read of the record; None before that."""

    def __call__(self, stored: Ledger | None) -> TransitionResult[ReconcileResult]:
        if self.usage_lister.is_namespace_deleted(self.key) and (stored is None or _is_empty(stored)):
            return TransitionResult(
                ReconcileResult(None, is_written=stored is not None), accepts_cached=True, is_removal=stored is not None
            )
        if stored is None and self._must_read_record():
            return TransitionResult(ReconcileResult(None, needs_record=True), accepts_cached=True)
        before = self._create_ledger() if stored is None else stored
        ledger = self._update_time(self._apply_limits(before))
        if ledger is stored and self._may_skip(stored) and self._apply_guarantees(stored) is stored:
            return TransitionResult(ReconcileResult(stored), accepts_cached=True)
        ledger = self._apply_guarantees(self._end_mappings(self._recount(ledger)))
        count_before = len(ledger.reservations)
        for live_read in self.live_reads:
            ledger = expire(ledger, self.ages, live_read)
        if stored is not None and not self.must_write and _is_equivalent(stored, ledger):
            return TransitionResult(ReconcileResult(stored), accepts_cached=True)
        return TransitionResult(
            ReconcileResult(ledger, count_before - len(ledger.reservations), is_written=True), ledger
        )

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: the transition leaves no mark in the ledger, and a repetition does no harm."""
        return False

    def _may_skip(self, stored: Ledger) -> bool:
        """Return whether other replicas write this ledger, and so recount it: another writer would only conflict."""
        if self.skippable is None or self.must_write or self.live_reads or stored.initializer:
            return False
        return len(stored.reservations) < _MANY_RESERVATIONS and stored != self.skippable

    def _create_ledger(self) -> Ledger:
        """Return a ledger of unknown past, or an active one if the namespace is new; that of a new cap counts first."""
        if self.usage_lister.is_new_ledger(self.cap, self.key):
            return Ledger(self.cap.hard, surge=Surge(self.cap.surge))
        is_new = bool(self.is_cap_new) and not self.usage_lister.was_active(self.key)
        activation = Activation(is_new, self.expected_at)
        return Ledger(self.cap.hard, initializer=self.initializer, surge=Surge(self.cap.surge), activation=activation)

    def _must_read_record(self) -> bool:
        """Return whether only the record tells if the cap of a missing ledger is new."""
        if self.is_cap_new is not None or self.usage_lister.was_active(self.key):
            return False
        return not self.usage_lister.is_new_ledger(self.cap, self.key)

    def _update_time(self, ledger: Ledger) -> Ledger:
        """Return a ledger that is not active with the time at which it is expected to be."""
        if not ledger.initializer or abs(ledger.activation.expected_at - self.expected_at) <= _EXPECTED_SECONDS:
            return ledger
        return replace(ledger, activation=replace(ledger.activation, expected_at=self.expected_at))

    def _apply_limits(self, ledger: Ledger) -> Ledger:
        cap, hard = self.cap.with_former(ledger.mappings), self.cap.complete_limits(ledger.hard)
        is_counted = ledger.resources <= cap.counted and ledger.mappings <= cap.mappings
        if is_counted and ledger.hard == hard and ledger.surge.amounts == cap.surge:
            return ledger
        return apply_limits(ledger, hard, cap.counted, cap.surge, cap.mappings)

    def _apply_guarantees(self, ledger: Ledger) -> Ledger:
        """Return the ledger with the guarantees of its members (rule 15), if it is counted with those members.

        It keeps those that it has while a limit is not known of which they may be shares.
        """
        membership = self.usage_lister.find_membership(self.cap, self.key)
        if membership is None or ledger.initializer or self.cap.limits.unknown:
            return ledger
        return apply_guarantees(ledger, self.cap.resolve_guarantees(membership.names), membership.hash)

    def _end_mappings(self, ledger: Ledger) -> Ledger:
        """Return the ledger without former mappings of device classes by which no consumer counts now."""
        if ledger.initializer:
            return ledger
        ended = self.usage_lister.list_ended_mappings(self.cap, self.key, ledger)
        if not ended:
            return ledger
        cap = self.cap.with_former(ledger.mappings - ended)
        return apply_limits(ledger, cap.complete_limits(ledger.hard), cap.counted, cap.surge, cap.mappings)

    def _recount(self, ledger: Ledger) -> Ledger:
        listed_at = (
            self.usage_lister.synced_at() if ledger.initializer or ledger.remapping.names else None
        )  # before the snapshot, since the watch continues
        snapshot = self.usage_lister.take_snapshot(self.cap, self.key, ledger)
        if snapshot is None:
            return ledger
        if ledger.initializer:
            activated = self._activate(ledger, snapshot, listed_at)
            if activated is not None or not ledger.activation.is_new:
                return activated or ledger
        recounted = recount(ledger, snapshot)
        if not isinstance(recounted, Ledger):
            return ledger
        return recounted if listed_at is None else confirm_mappings(recounted, self.ages, listed_at)

    def _activate(self, ledger: Ledger, snapshot: UsageSnapshot, listed_at: float | None) -> Ledger | None:
        """Return the ledger active, by a list that began at `listed_at`, or None if that is not possible yet."""
        if listed_at is None or self._may_miss_pods(listed_at) or not self.is_recorded:
            return None
        activated = activate(ledger, self.ages, snapshot, listed_at)
        return activated if isinstance(activated, Ledger) else None

    def _may_miss_pods(self, listed_at: float) -> bool:
        """Return whether a pod that a replica without the cap accepted may still be stored (rule 8)."""
        return self.loaded_since is None or listed_at < self.loaded_since + self.ages.in_flight_bound


def _read_no_workload(_uid: str, _reservation: Reservation) -> tuple[int | None, bool]:
    """Return that a workload does not exist: without a reader of workloads, none is admitted as a whole."""
    return None, False


class LedgerReconciler:
    """The reconciliation of ledgers, for one thread at a time.

    `caps` returns the active caps, `nonce` a nonce for each new ledger. `in_flight_bound` is B in seconds of
    `monotonic`. Other threads may read the reservation ages in `ages`. `leadership` decides whether this replica
    reconciles ledgers, or only records the ages of their reservations. `read_workload` reads the workload of a
    reservation from the quorum. Without an `activation`, no cap is new.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        caps: Callable[[], CapIndex],
        usage_lister: UsageLister,
        ledgers: Ledgers,
        reader: ConsumerReader,
        monotonic: Callable[[], float],
        nonce: Callable[[], str],
        in_flight_bound: float = IN_FLIGHT_BOUND_SECONDS,
        ages: dict[LedgerKey, ReservationAges] | None = None,
        leadership: Leadership | None = None,
        read_workload: WorkloadStateReader = _read_no_workload,
        activation: CapActivation | None = None,
    ) -> None:
        self._caps = caps
        self._usage_lister = usage_lister
        self._ledgers = ledgers
        self._reader = reader
        self._read_workload = read_workload
        self._activation = activation
        self._monotonic = monotonic
        self._nonce = nonce
        self._in_flight_bound = in_flight_bound
        self._leadership = leadership or Standalone()
        self._ages: dict[LedgerKey, ReservationAges] = {} if ages is None else ages
        self._pending: dict[LedgerKey, Ledger] = {}
        self._recounted_at: dict[LedgerKey, float] = {}  # when a reconciliation first saw the ledger's pods revision
        self._with_members: set[LedgerKey] = set()  # ledgers that had members at their last reconciliation
        self._removal_due: dict[
            LedgerKey, float
        ] = {}  # ledgers of deleted namespaces, and the time of the next try to remove them

    def list_ledgers(self, namespaces: Sequence[str]) -> Iterator[tuple[LedgerKey, ActiveCap]]:
        """Yield the ledgers that count pods of these namespaces, by the labels of now or of the last reconciliation."""
        ledgers: dict[LedgerKey, ActiveCap] = {}
        caps = self._caps()
        ungrouped = [cap for cap in caps.list_caps() if not cap.definition.group_by]
        for namespace in namespaces:
            for cap in ungrouped:
                key = get_ledger_key(cap, namespace)
                membership = None if key in ledgers else self._usage_lister.find_membership(cap, key)
                if membership is not None and (namespace in membership.names or key in self._with_members):
                    ledgers[key] = cap.choose_limits(key.namespace)
            groups = self._usage_lister.list_groups_of(caps, namespace)
            ledgers |= {get_ledger_key(cap, namespace): cap for cap in groups}
        yield from (ledgers | self._list_left_groups(caps)).items()

    def _list_left_groups(self, caps: CapIndex) -> dict[LedgerKey, ActiveCap]:
        """Return the ledgers of groups whose last namespace left: no namespace leads to them now."""
        left: dict[LedgerKey, ActiveCap] = {}
        for key in self._with_members:
            cap = caps.find_cap(key.cap, key.namespace)
            if cap is not None and cap.group_value is not None:
                membership = self._usage_lister.find_membership(cap, key)
                if membership is not None and not membership.names:
                    left[key] = cap
        return left

    def list_pending(self) -> tuple[LedgerKey, ...]:
        """Return the ledgers that have work left from their last reconciliation.

        They had reservations, were initializing, or are due for removal.
        """
        now = self._monotonic()
        return tuple({*self._pending, *(key for key, due in self._removal_due.items() if due <= now)})

    def is_leader(self) -> bool:
        """Return whether this replica reconciles ledgers."""
        return self._leadership.is_leader()

    def is_recorded(self, cap: ActiveCap) -> bool:
        """Return whether the record of the caps that were active has a cap: before that its ledgers deny nothing."""
        return self._leadership.is_recorded(cap.policy_key)

    def count_lost_replicas(self) -> int:
        """Return the number of lost replicas.

        After an increase only a read of every ledger finds the reservations of the lost replica.
        """
        return self._leadership.count_lost_replicas()

    def reconcile(self, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        """Create a missing ledger, recount it, and expire the reservations that are due.

        If another replica leads, only record the ages of the reservations (rule 6). But every replica reconciles an
        initializing ledger, and a reservation that the leader leaves past its time. The leader may not have observed
        it: a reservation of a pod that is never stored changes no watched object.

        Raises:
            RetryLaterError: if other writers were in the way.
            TallygateError: if the ledger, or a pod or claim, is unavailable.
        """
        membership, is_deleted = (
            self._usage_lister.find_membership(cap, key),
            self._usage_lister.is_namespace_deleted(key),
        )
        if is_deleted:
            self._removal_due[key] = self._monotonic() + _REMOVAL_RETRY_SECONDS
            self._with_members.discard(key)  # before the removal: if that fails, the retry is due after a minute only
        result = None if self.is_leader() else self._read(key)
        if result is None or _is_urgent(result) or self._is_overdue(key):
            result = self._reconcile(key, cap)
            if is_deleted and result.ledger is not None and _is_empty(result.ledger):
                result = self._reconcile(key, cap)  # the ledger is empty, so this one removes it
        if result.ledger is None or not is_deleted:
            self._removal_due.pop(key, None)
        (self._with_members.add if membership is not None and membership.names else self._with_members.discard)(key)
        if result.ledger is not None:
            self._usage_lister.record_existing(key, is_active=not result.ledger.initializer)
        return result

    def _is_overdue(self, key: LedgerKey) -> bool:
        """Return whether the leader should have expired, or counted, a reservation by now."""
        ages, ledger, now = self._ages.get(key), self._pending.get(key), self._monotonic()
        bound = self._in_flight_bound + _OVERDUE_SECONDS
        if ages is None or ages.max_age_seconds(now) <= bound:
            return False
        reservations = ledger.reservations if ledger is not None else {}
        waiting = {uid for uid, reservation in reservations.items() if _is_workload(reservation)}
        return any(
            now - age.first_seen > bound + (GANG_BOUND_SECONDS if uid in waiting else 0)
            for (uid, _), age in ages.by_attempt.items()
            if uid != REMAPPING
        )

    def _read(self, key: LedgerKey) -> ReconcileResult:
        started_at = self._monotonic()
        result = ReconcileResult(self._ledgers.transact(key, ReadTransition(), started_at + _RECONCILE_TIMEOUT_SECONDS))
        self._cache_result(key, self._ages.get(key) or ReservationAges(self._in_flight_bound), result, started_at)
        return result

    def _reconcile(self, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        ages = self._ages.get(key) or ReservationAges(self._in_flight_bound)
        live_reads = list(self._read_consumers(key, ages))
        started_at = self._monotonic()
        recounted_at = self._recounted_at.get(key, -math.inf)
        skippable = self._pending.get(key) if started_at < recounted_at + _MAX_UNCOUNTED_SECONDS else None
        must_write, loaded_since = (
            ages.needs_write(started_at),
            self._leadership.get_loaded_everywhere_since(cap.policy_key),
        )
        transition = _ReconcileTransition(
            cap,
            key,
            self._usage_lister,
            ages,
            live_reads,
            self._nonce(),
            must_write,
            skippable,
            loaded_since,
            self._leadership.is_recorded(cap.policy_key),
            self._estimate_time(cap, ages, loaded_since, started_at),
            None if self._activation is not None else False,
        )
        result = self._ledgers.transact(key, transition, started_at + _RECONCILE_TIMEOUT_SECONDS)
        if result.needs_record:
            transition = dataclasses.replace(transition, is_cap_new=self._is_cap_new(cap))
            result = self._ledgers.transact(key, transition, self._monotonic() + _RECONCILE_TIMEOUT_SECONDS)
        self._cache_result(key, ages, result, started_at)
        if result.ledger is not None and result.ledger.initializer and loaded_since is not None:
            # The last replica may have got the cap later than this one has known the ledger.
            due = loaded_since + self._in_flight_bound
            if due <= self._monotonic():
                self._request_progress_after(due)
        return result

    def _is_cap_new(self, cap: ActiveCap) -> bool:
        """Return whether the cap was never active; if the record cannot be read, it may have been."""
        try:
            return self._activation is not None and self._activation.is_new(cap.policy_key)
        except (RetryLaterError, StoreUnavailableError):
            return False

    def _estimate_time(self, cap: ActiveCap, ages: ReservationAges, loaded_since: float | None, now: float) -> int:
        """Return the time at which a ledger that is not active is expected to be; 0 if that is unknown."""
        if self._activation is None:
            return 0
        first_seen = ages.initializer_seen_at
        if first_seen is None or loaded_since is None:
            return self._activation.estimate_time(cap.policy_key)
        return self._activation.estimate_time(cap.policy_key, now - max(first_seen, loaded_since))

    def drop(self, key: LedgerKey) -> None:
        """Drop the records of a ledger that no active cap has."""
        self._drop_pending(key)
        self._removal_due.pop(key, None)

    def _drop_pending(self, key: LedgerKey) -> None:
        self._ages.pop(key, None)
        self._pending.pop(key, None)
        self._recounted_at.pop(key, None)

    def _cache_result(self, key: LedgerKey, ages: ReservationAges, result: ReconcileResult, started_at: float) -> None:
        ledger = result.ledger
        if ledger is None or not (ledger.reservations or ledger.initializer or ledger.remapping.names):
            self._drop_pending(key)
            return
        now = self._monotonic()
        if result.is_written:
            ages = ages.confirm_write(started_at, now)
        before = self._pending.get(key)
        if before is None or before.pods_revision != ledger.pods_revision:
            self._recounted_at[key] = now
        ages = ages.observe(ledger, now)
        self._ages[key], self._pending[key] = ages, ledger
        for due in (ages.activation_time, ages.remapping_time):
            if due is not None:
                self._request_progress_after(due)

    def _request_progress_after(self, moment: float) -> None:
        """Request a snapshot that is no older than `moment`, for which a ledger waits, unless there is one."""
        synced_at = self._usage_lister.synced_at()
        if synced_at is None or synced_at < moment:
            self._usage_lister.request_progress()

    def _read_consumers(self, key: LedgerKey, ages: ReservationAges) -> Iterator[LiveRead]:
        """Yield the results of quorum reads for the reservations that are old enough."""
        ledger = self._pending.get(key)
        known = ledger.reservations if ledger is not None else {}
        # workloads last, since their reservations may wait for minutes
        confirmed = sorted(ages.list_confirmed(), key=lambda uid: uid in known and _is_workload(known[uid]))
        for uid in confirmed[:_MAX_LIVE_READS]:
            reservation = known.get(uid)
            if reservation is not None:
                started_at = self._monotonic()
                if reservation.kind is ConsumerKind.WORKLOAD:
                    yield LiveRead(uid, started_at, *self._read_workload(uid, reservation))
                    continue
                revision = self._reader.read_revision(reservation.kind, reservation.namespace, reservation.name, uid)
                if revision is None or self._usage_lister.has_namespace(
                    reservation.namespace
                ):  # otherwise no ledger counts the pod yet
                    yield LiveRead(uid, started_at, revision)


def _is_workload(reservation: Reservation) -> bool:
    return reservation.kind is ConsumerKind.WORKLOAD


def _is_empty(ledger: Ledger) -> bool:
    """Return whether the ledger equals a missing one.

    It counts nothing, and no attempt has a claim that it does not show.
    """
    return not (ledger.reservations or ledger.used or ledger.initializer)


def _is_urgent(result: ReconcileResult) -> bool:
    ledger = result.ledger
    return ledger is not None and (bool(ledger.initializer) or len(ledger.reservations) >= _TOO_MANY_RESERVATIONS)


def _is_equivalent(before: Ledger, after: Ledger) -> bool:
    """Return whether two ledgers are equal in all but the revisions at which they were counted."""
    return (
        before.reservations == after.reservations
        and before.used == after.used
        and before.unconfirmed == after.unconfirmed
        and before.unpublished == after.unpublished
        and before.hard == after.hard
        and before.resources == after.resources
        and before.namespaces_hash == after.namespaces_hash
        and before.initializer == after.initializer
        and before.activation == after.activation
        and before.surge == after.surge
        and before.mappings == after.mappings
        and before.remapping == after.remapping
        and before.guarantees == after.guarantees
    )
