"""The wrong transitions of ledgers for claims in the mutants: a few lines each, which look reasonable."""

from msgspec import structs

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.expire import LiveRead, ReservationAges, expire
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot, recount
from tallygate.state.ledger.reserve import ReservationRequest, Reserved, reserve
from tests.gate.simulation.wrong_transitions import Result


def _replace_terms(request: ReservationRequest, **terms: int) -> ReservationRequest:
    return structs.replace(request, devices=structs.replace(request.devices, **terms))


def settle_allowed(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(ledger, request)
    if not request.devices.allocates_at or not isinstance(result, Reserved):
        return result
    settled = result.ledger.used.find_shortfall(request.current.find_shortfall(request.requested))
    return Reserved(structs.replace(result.ledger, used=settled), needs_no_write=False)


def check_by_older_count(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(ledger, _replace_terms(request, allocates_at=min(request.devices.allocates_at, 1)))


def check_larger_only(ledger: Ledger, request: ReservationRequest) -> Result:
    is_larger = bool(request.requested.find_shortfall(request.current))
    return reserve(ledger, request if is_larger else _replace_terms(request, allocates_at=0))


def check_used_only(ledger: Ledger, request: ReservationRequest) -> Result:
    if not request.devices.allocates_at:
        return reserve(ledger, request)
    result = reserve(ledger.with_reservations(()), request)
    if not isinstance(result, Reserved) or result.needs_no_write:
        return result
    after = ledger.with_reservation(request.uid, result.ledger.reservations[request.uid])
    return Reserved(after, needs_no_write=False)


def accept_older_claims(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(structs.replace(ledger, claims_revision=0), snapshot)


def remove_unseen_claims(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    unseen = {
        uid
        for uid, each in ledger.reservations.items()
        if each.kind is ConsumerKind.CLAIM and uid not in snapshot.used_by_consumer
    }
    return recount(ledger, structs.replace(snapshot, deleted={*snapshot.deleted, *unseen}))


def keep_counted(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot):
        return after
    for uid, reservation in after.reservations.items():
        if reservation.kind is ConsumerKind.CLAIM and reservation.operation is Operation.CREATE:
            after = after.with_reservation(uid, ledger.reservations[uid])
    return after


def expire_as_pods(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    reservation = ledger.reservations.get(live_read.uid)
    if reservation is None:
        return ledger
    as_pod = ledger.with_reservation(live_read.uid, structs.replace(reservation, kind=ConsumerKind.POD))
    after = expire(as_pod, ages, live_read)
    return ledger if after is as_pod else after


def reserve_unchecked(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(ledger, structs.replace(request, may_exceed=request.may_exceed or bool(request.devices.pod_uid)))


def cover_twice(ledger: Ledger, request: ReservationRequest) -> Result:
    """Reserve as if no other claim were made for the pod."""
    others = {uid: each for uid, each in ledger.reservations.items() if uid != request.uid}
    alone = ledger.with_reservations(
        (uid, structs.replace(each, pod_uid="") if uid in others else each) for uid, each in ledger.reservations.items()
    )
    result = reserve(alone, request)
    if not isinstance(result, Reserved) or result.needs_no_write:
        return result
    after = ledger.with_reservation(request.uid, result.ledger.reservations[request.uid])
    return Reserved(after, needs_no_write=False)


def cover_each(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot):
        return after
    for uid, reservation in after.reservations.items():
        if reservation.pod_uid:
            counted = snapshot.find_covering_part(reservation.pod_uid)
            after = after.with_reservation(uid, structs.replace(reservation, counted=counted))
    return after
