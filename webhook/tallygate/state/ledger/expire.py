"""Expiry of reservations (rule 6) and activation of ledgers after a loss (rule 7), by an observer's recorded ages.

Every time here is in seconds of this observer's own monotonic clock. Clocks of two machines are never compared, and no
age is ever stored.

Rule 6, expire: drop a reservation whose pod was never stored, or whose pod was stored and no watch showed it.

Rule 7, lost stores: a ledger whose past is unknown reserves nothing until all in-flight pods are counted.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from msgspec import structs

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.gangs import give_back
from tallygate.state.ledger.ledger import NO_ACTIVATION, Activation, Ledger
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot, confirm_names, recount
from tallygate.state.ledger.surges import end_surge

GANG_BOUND_SECONDS = 120.0
"""The time after which the rest of a workload's reservation ends if no further pod of it is counted.

A controller makes the pods of a workload within seconds, unless it starts some of them after others.
"""

INITIALIZER = ""
"""The key, in place of a UID, for the age of an initializing ledger (rule 7)."""

REMAPPING = "mappings"
"""The key, in place of a UID, for the age of the last change of mappings of device classes (rule 10)."""

_STATES = frozenset({INITIALIZER, REMAPPING})


@dataclass(frozen=True, slots=True)
class ReservationAge:
    """The time of the first observation.

    `confirmed_at` is the time at which a write that began after the in-flight bound was known to be committed.
    """

    first_seen: float
    confirmed_at: float | None = None


@dataclass(frozen=True, slots=True)
class ReservationAges:
    """The ages of one ledger's reservations as one observer knows them, by UID and the attempt of the last write.

    `in_flight_bound` is B in seconds: nothing is stored later than that after its handler began, except writes that
    already wait inside etcd. The confirmed write covers those: a write that begins after the bound commits after all
    that waited there.
    """

    in_flight_bound: float
    by_attempt: Mapping[tuple[str, str], ReservationAge] = field(default_factory=lambda: MappingProxyType({}))

    def observe(self, ledger: Ledger, now: float) -> "ReservationAges":
        """Return the ages with the reservations of this ledger at `now`, without those that it does not show."""
        ages = {key: self.by_attempt.get(key) or ReservationAge(now) for key in _list_attempts(ledger)}
        return replace(self, by_attempt=MappingProxyType(ages))

    def confirm_write(self, started_at: float, now: float) -> "ReservationAges":
        """Return the ages after a committed write of this ledger.

        The write was sent at `started_at`, and is known at `now` to be committed.
        """
        ages = {
            key: replace(sighting, confirmed_at=now)
            if sighting.confirmed_at is None and started_at >= sighting.first_seen + self.in_flight_bound
            else sighting
            for key, sighting in self.by_attempt.items()
        }
        return replace(self, by_attempt=MappingProxyType(ages))

    def needs_write(self, now: float) -> bool:
        """Return whether some reservations are old enough, and no write is committed since.

        Then the ledger needs a write, even one that changes nothing.
        """
        return any(
            age.confirmed_at is None and now >= age.first_seen + self.in_flight_bound
            for age in self.by_attempt.values()
        )

    def max_age_seconds(self, now: float) -> float:
        """Return the largest age of a reservation in seconds; 0 if the ledger has no reservation."""
        return max((now - age.first_seen for age in self.by_attempt.values()), default=0.0)

    def is_conclusive(self, uid: str, attempt: str, started_at: float) -> bool:
        """Return whether a read that began at `started_at` shows the final result of that attempt on this pod."""
        age = self.by_attempt.get((uid, attempt))
        return age is not None and age.confirmed_at is not None and started_at >= age.confirmed_at

    def is_older(self, uid: str, attempt: str, moment: float, seconds: float) -> bool:
        """Return whether the observer has known that reservation of that attempt for at least `seconds` at `moment`."""
        age = self.by_attempt.get((uid, attempt))
        return age is not None and moment >= age.first_seen + seconds

    @property
    def activation_time(self) -> float | None:
        """The time from which on a list can activate an initializing ledger; None before that is known."""
        return next(
            (sighting.confirmed_at for (uid, _), sighting in self.by_attempt.items() if uid == INITIALIZER), None
        )

    @property
    def remapping_time(self) -> float | None:
        """The time from which on a list can confirm the mappings of a ledger; None before that is known."""
        return next((sighting.confirmed_at for (uid, _), sighting in self.by_attempt.items() if uid == REMAPPING), None)

    @property
    def initializer_seen_at(self) -> float | None:
        """The time of the first observation of a ledger that is not active; None for an active one."""
        return next((sighting.first_seen for (uid, _), sighting in self.by_attempt.items() if uid == INITIALIZER), None)

    def list_confirmed(self) -> list[str]:
        """Return the UIDs of the consumers that need a quorum read."""
        return [
            uid
            for (uid, _), sighting in self.by_attempt.items()
            if uid not in _STATES and sighting.confirmed_at is not None
        ]


def _list_attempts(ledger: Ledger) -> Iterator[tuple[str, str]]:
    if ledger.initializer:
        yield INITIALIZER, ledger.initializer
    if ledger.remapping.names:
        yield REMAPPING, ledger.remapping.mark
    for uid, reservation in ledger.reservations.items():
        yield uid, reservation.attempt


@dataclass(frozen=True, slots=True)
class LiveRead:
    """The result of a quorum read of a reservation's kind, namespace and name.

    The read began at `started_at` by the observer's monotonic clock. `revision` is the resourceVersion of the consumer
    with this UID; None if no object of its kind has that name, or the object of that name has another UID. `is_active`
    is True if it is a workload whose controller may still make pods.
    """

    uid: str
    started_at: float
    revision: int | None
    is_active: bool = False


def expire(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    """Return the ledger without the reservation, if the result of its attempts is final and counted (rule 6).

    No attempt can still store the consumer, and `used` counts the consumer if it was stored. A pod that is not
    stored gives back what it took over from its workload. The reservation of an active workload expires when no
    further pod of it has been counted for `GANG_BOUND_SECONDS` (rule 11).
    """
    reservation = ledger.reservations.get(live_read.uid)
    if reservation is None or not ages.is_conclusive(live_read.uid, reservation.attempt, live_read.started_at):
        return ledger
    if reservation.kind is ConsumerKind.WORKLOAD:
        is_due = ages.is_older(live_read.uid, reservation.attempt, live_read.started_at, GANG_BOUND_SECONDS)
        return ledger if live_read.is_active and not is_due else end_surge(ledger.with_reservation(live_read.uid, None))
    counted_at = ledger.claims_revision if reservation.kind is ConsumerKind.CLAIM else ledger.pods_revision
    if live_read.revision is not None and live_read.revision > counted_at:
        return ledger
    remaining = ledger.with_reservation(live_read.uid, None)
    return end_surge(remaining if live_read.revision is not None else give_back(remaining, reservation))


@dataclass(frozen=True, slots=True)
class NotDue:
    """The list is too early: it began before the bound, or consumers with earlier reservations may still be stored."""


def activate(
    ledger: Ledger, ages: ReservationAges, snapshot: UsageSnapshot, listed_at: float
) -> Ledger | StaleSnapshot | NotDue:
    """Recount an initializing ledger, and let it reserve.

    `listed_at` is the time, by the observer's monotonic clock, at which a quorum list or read began that the snapshot
    is no older than. It must lie after the bound and the confirmed write, as a read of rule 6: a pod that is stored
    after an earlier list would never be counted.
    """
    if not ledger.initializer:
        return ledger
    if not ages.is_conclusive(INITIALIZER, ledger.initializer, listed_at):
        return NotDue()
    recounted = recount(ledger, snapshot)
    if isinstance(recounted, StaleSnapshot):
        return recounted
    return structs.replace(recounted, initializer="", activation=NO_ACTIVATION)


def count_first(ledger: Ledger, initializer: str, activation: Activation) -> Ledger:
    """Return an active ledger as one that is counted before it reserves again, as `activation` says (rule 7).

    So is a lost ledger whose cap is new. Its reservations remain. `initializer` is a nonce.
    """
    if ledger.initializer and (ledger.activation.is_new or not activation.is_new):
        return ledger
    return structs.replace(ledger, initializer=initializer, activation=activation)


def confirm_mappings(ledger: Ledger, ages: ReservationAges, listed_at: float) -> Ledger:
    """Return a recounted ledger that decides allocations as before its mappings were changed, name by name (rule 10).

    A consumer that was admitted by a count without these mappings has passed no guard. Once it is stored or can no
    longer be stored, and the ledger charges no more than its limit, every consumer in it has room. `listed_at` is the
    time, by the observer's monotonic clock, at which a list began that the recount is no older than.
    """
    if not ledger.remapping.names or not ages.is_conclusive(REMAPPING, ledger.remapping.mark, listed_at):
        return ledger
    charged = ledger.compute_charged()
    fitting = [name for name in ledger.remapping.names if charged.get(name, 0) <= ledger.hard.get(name, math.inf)]
    return structs.replace(ledger, remapping=confirm_names(ledger.remapping, fitting)) if fitting else ledger
