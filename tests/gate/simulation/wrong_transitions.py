"""The wrong transitions of ledgers in the mutants: a few lines each, which look reasonable."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from msgspec import structs

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.expire import LiveRead, NotDue, ReservationAge, ReservationAges, activate, expire
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot, recount
from tallygate.state.ledger.reserve import (
    Deferred,
    Exceeded,
    ReservationRequest,
    Reserved,
    reserve,
)

Result = Reserved | Exceeded | Deferred
Recount = Callable[[Ledger, UsageSnapshot], Ledger | StaleSnapshot]


# Rule 2: reserve


def retry_without_write(ledger: Ledger, request: ReservationRequest) -> Result:
    reservation = ledger.reservations.get(request.uid)
    if reservation is not None and not request.requested.find_shortfall(reservation.requested):
        return Reserved(ledger, needs_no_write=True)
    return reserve(ledger, request)


def replace_merge(merge: Callable[[Reservation, Reservation], Reservation]) -> Callable[..., Result]:
    """Return a transition in which `merge` makes the stored reservation of the earlier one and the correct new one."""

    def wrong(ledger: Ledger, request: ReservationRequest) -> Result:
        result = reserve(ledger, request)
        before = ledger.reservations.get(request.uid)
        if before is None or not isinstance(result, Reserved):
            return result
        return Reserved(
            ledger.with_reservation(request.uid, merge(before, result.ledger.reservations[request.uid])),
            needs_no_write=False,
        )

    return wrong


def keep_first_change(ledger: Ledger, request: ReservationRequest) -> Result:
    if request.operation is Operation.UPDATE and request.uid in ledger.reservations:
        return Reserved(ledger, needs_no_write=True)
    return reserve(ledger, request)


def replace_by_change(ledger: Ledger, request: ReservationRequest) -> Result:
    if request.operation is Operation.UPDATE:
        return reserve(ledger.with_reservation(request.uid, None), request)
    return reserve(ledger, request)


def ignore_ledger_limit(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(structs.replace(ledger, hard=Amounts()), request)
    return (
        Reserved(structs.replace(result.ledger, hard=ledger.hard), result.needs_no_write)
        if isinstance(result, Reserved)
        else result
    )


def ignore_own_limit(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(ledger, structs.replace(request, hard=ledger.hard))


def ignore_limits(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(ledger, structs.replace(request, may_exceed=True))


# Rule 13: names


def _list_others(ledger: Ledger, uid: str) -> list[str]:
    """Return the UIDs of the other reservations of a name."""
    reservation = ledger.reservations[uid]
    name = reservation.shared_name
    return [] if name is None else [each for each in ledger.attempts_by_name[name].uids if each != uid]


def _remove(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    for uid in uids:
        ledger = ledger.with_reservation(uid, None)
    return ledger


def replace_attempt(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(ledger, request)
    if not isinstance(result, Reserved) or result.needs_no_write:
        return result
    return Reserved(_remove(result.ledger, _list_others(result.ledger, request.uid)), needs_no_write=False)


def keep_first_attempt(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(ledger, request)
    if not isinstance(result, Reserved) or result.needs_no_write or request.uid in ledger.reservations:
        return result
    return Reserved(ledger, needs_no_write=True) if _list_others(result.ledger, request.uid) else result


# Rule 3: release


def release_by_last(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    reservation = ledger.reservations.get(uid)
    is_own = reservation is not None and reservation.attempt == attempt
    return ledger.with_reservation(uid, None) if is_own else ledger


# Rule 4: recount


def accept_older_snapshot(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(structs.replace(ledger, pods_revision=0), snapshot)


def replace_remaining(select: Callable[[Reservation, Amounts], Reservation | None]) -> Recount:
    """Return a recount in which `select` turns the reservation of a stored pod and its used amounts into the rest."""

    def wrong(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
        after = recount(ledger, snapshot)
        if isinstance(after, StaleSnapshot):
            return after
        for uid, reservation in ledger.reservations.items():
            if uid in after.reservations and uid in snapshot.used_by_consumer:
                after = after.with_reservation(uid, select(reservation, snapshot.used_by_consumer[uid]))
        return after

    return wrong


def settle_by_size(reservation: Reservation, used: Amounts) -> Reservation | None:
    return structs.replace(reservation, counted=used) if reservation.requested.find_shortfall(used) else None


def settle_one(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Turn the reservation of one stored pod into used amounts, and count nothing."""
    for uid, reservation in ledger.reservations.items():
        if uid in snapshot.used_by_consumer:
            used = ledger.used + snapshot.used_by_consumer[uid] - reservation.counted
            return structs.replace(ledger.with_reservation(uid, None), used=used)
    return ledger


# Rule 5: membership


def accept_any_namespaces(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(
        ledger,
        structs.replace(
            request, namespaces_revision=ledger.namespaces_revision, namespaces_hash=ledger.namespaces_hash
        ),
    )


def recount_old_namespaces(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(structs.replace(ledger, namespaces_revision=0), snapshot)


# Rule 6: expire


class ShortAges(ReservationAges):
    """Ages with a shorter in-flight bound."""

    def __init__(
        self, in_flight_bound: float, by_attempt: Mapping[tuple[str, str], ReservationAge] | None = None
    ) -> None:
        super().__init__(min(in_flight_bound, 1.0), MappingProxyType(dict(by_attempt or {})))


@dataclass(frozen=True)
class AgesByUid(ReservationAges):
    """Ages that begin with the first attempt of a pod."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """Return ages in which a new attempt has the age of the pod's earlier ones."""
        after = super().observe(ledger, now)
        first = {uid: each for (uid, _), each in self.by_attempt.items()}
        return replace(
            after, by_attempt=MappingProxyType({key: first.get(key[0], each) for key, each in after.by_attempt.items()})
        )


@dataclass(frozen=True)
class AgesByStamp(ReservationAges):
    """Ages by the clock of the replica that wrote the reservation."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """Return ages that begin at the time in the nonce, if there is one."""
        after = super().observe(ledger, now)
        ages = {
            key: replace(each, first_seen=float(key[1].partition("@")[2] or now))
            for key, each in after.by_attempt.items()
        }
        return replace(after, by_attempt=MappingProxyType(ages))


@dataclass(frozen=True)
class UnconfirmedAges(ReservationAges):
    """Ages that need no confirmed write."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """Return ages in which a write is confirmed for every attempt that is old enough."""
        after = super().observe(ledger, now)
        ages = {
            key: replace(each, confirmed_at=now)
            if each.confirmed_at is None and now >= each.first_seen + self.in_flight_bound
            else each
            for key, each in after.by_attempt.items()
        }
        return replace(after, by_attempt=MappingProxyType(ages))


def expire_without_read(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    return expire(ledger, ages, replace(live_read, revision=None))


def expire_uncounted(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    return structs.replace(
        expire(structs.replace(ledger, pods_revision=10**9), ages, live_read),
        pods_revision=ledger.pods_revision,
    )


def expire_absent_only(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    return expire(ledger, ages, live_read) if live_read.revision is None else ledger


# Rule 7: lost ledgers


def activate_at_once(
    ledger: Ledger, _ages: ReservationAges, snapshot: UsageSnapshot, _listed_at: float
) -> Ledger | StaleSnapshot | NotDue:
    after = recount(ledger, snapshot)
    return after if isinstance(after, StaleSnapshot) else structs.replace(after, initializer="")


def activate_by_old_list(
    ledger: Ledger, ages: ReservationAges, snapshot: UsageSnapshot, _listed_at: float
) -> Ledger | StaleSnapshot | NotDue:
    return activate(ledger, ages, snapshot, 1e12)
