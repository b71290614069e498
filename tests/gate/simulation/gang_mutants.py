"""The mutants of workloads that are admitted as a whole (rule 11); `mutants` has the others, and the program."""

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.kinds import ReviewTargets
from tallygate.gate import charge_transitions, ledger_reconciler
from tallygate.objects.meta import ObjectMeta
from tallygate.review.owner_chain import Controller, OwnerChains, find_controller
from tallygate.state.ledger import expire as expiry
from tallygate.state.ledger import recount as counting
from tallygate.state.ledger import reserve as reserving
from tallygate.state.ledger.expire import LiveRead, ReservationAges, expire
from tallygate.state.ledger.gangs import renew, take_over
from tallygate.state.ledger.ledger import Ledger, Reservation
from tallygate.state.ledger.reserve import (
    Deferred,
    Exceeded,
    ReservationRequest,
    Reserved,
    WorkloadTerms,
    reserve,
)
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_SEVERAL = "gangs"
_LATE = "gangs whose pods come late"


def _reserve_from_any(ledger: Ledger, request: ReservationRequest) -> Reserved | Exceeded | Deferred:
    if not request.workload.kind:
        workloads = tuple(uid for uid, each in ledger.reservations.items() if each.kind is ConsumerKind.WORKLOAD)
        request = replace(request, workload=WorkloadTerms(owner_uids=workloads))
    return reserve(ledger, request)


def _list_unread(
    _chains: OwnerChains, _namespace: str, metadata: ObjectMeta | None, _targets: ReviewTargets
) -> tuple[Controller, ...]:
    found = find_controller(metadata)
    return () if found is None else (Controller("batch", "v1", "Job", found.name or "", found.uid or ""),)


def _take_without_reservation(before: Ledger, after: Ledger, uid: str, owner_uids: Sequence[str]) -> Ledger:
    taken = take_over(before, after, uid, owner_uids)
    own = taken.reservations[uid]
    return taken if taken is after else taken.with_reservation(uid, replace(own, counted=own.requested))


def _take_at_each_attempt(before: Ledger, after: Ledger, uid: str, owner_uids: Sequence[str]) -> Ledger:
    return take_over(before.with_reservation(uid, None), after, uid, owner_uids)


def _renew_without_marks(gang: Reservation, attempts: Mapping[str, str]) -> Reservation:
    return replace(renew(gang, attempts), counted_pods=frozenset())


def _give_nothing_back(ledger: Ledger, _reservation: Reservation) -> Ledger:
    return ledger


def _is_complete_in_flight(_uid: str, reservation: Reservation, _in_flight: object) -> bool:
    return not reservation.compute_reserved()


def _keep_workloads(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    reservation = ledger.reservations.get(live_read.uid)
    is_workload = reservation is not None and reservation.kind is ConsumerKind.WORKLOAD
    return ledger if is_workload else expire(ledger, ages, live_read)


def _expire_as_inactive(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    return expire(ledger, ages, LiveRead(live_read.uid, live_read.started_at, live_read.revision))


def _create(description: str, replacement: Any, mix: str = _SEVERAL, seed: int = 0) -> Mutant:
    return create_mutant(11, description, replacement, mix, seed)


GANG_MUTANTS: Mapping[str, Mutant] = {
    "takes_from_any": _create(
        "lets a pod take over amounts of whichever workload",
        patch.object(charge_transitions, "reserve", _reserve_from_any),
    ),
    "trusts_the_uid": _create(
        "takes the UID in an owner reference for that of the controller without reading it",
        patch.object(OwnerChains, "list_controllers", _list_unread),
        seed=2,
    ),
    "takes_unreserved": _create(
        "gives a pod that takes over an amount no reservation of its own",
        patch.object(reserving, "take_over", _take_without_reservation),
    ),
    "takes_twice": _create(
        "takes over the amount again at the second attempt of a pod",
        patch.object(reserving, "take_over", _take_at_each_attempt),
        seed=4,
    ),
    "takes_again": _create(
        "takes over the amount again at an attempt that arrives after its pod is counted",
        patch.object(counting, "renew", _renew_without_marks),
        seed=525,
    ),
    "gives_nothing_back": _create(
        "gives nothing back when a pod is not stored",
        patch.object(expiry, "give_back", _give_nothing_back),
        _LATE,
        seed=3,
    ),
    "releases_for_good": _create(
        "gives nothing back when another cap rejects the pod",
        patch.object(reserving, "give_back", _give_nothing_back),
        seed=1,
    ),
    "ends_in_flight": _create(
        "ends the reservation of a workload as soon as nothing is left of it",
        patch.object(counting, "is_complete", _is_complete_in_flight),
        _LATE,
        seed=511,
    ),
    "keeps_for_ever": _create(
        "keeps the reservation of a workload whose pods do not come",
        patch.object(ledger_reconciler, "expire", _keep_workloads),
        seed=1,
    ),
    "expires_at_once": _create(
        "expires the reservation of a workload like that of a pod",
        patch.object(ledger_reconciler, "expire", _expire_as_inactive),
        _LATE,
        seed=3,
    ),
}
