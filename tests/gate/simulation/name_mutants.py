"""The mutants of the rule for names: what several attempts of one name reserve together."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.accounting.charge import ConsumerKind
from tallygate.gate import charge_transitions
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.state.ledger import recount, reserve
from tallygate.state.ledger.ledger import Ledger, Reservation, SharedName
from tallygate.state.ledger.recount import NO_POD, CountedPod, PodName, UsageSnapshot
from tallygate.state.ledger.reserve import ReservationRequest, release
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_select_remaining = recount._select_remaining  # noqa: SLF001  # the replaced function
_find_shared_name = Reservation.shared_name.fget  # type: ignore[attr-defined]  # a property
_cover_by_holder = recount._cover_by_holder  # noqa: SLF001  # replaced, as those below
_find_covering = reserve._find_covering  # noqa: SLF001
_find_holder = UsageSnapshot.find_holder
_recount = ReserveTransition._recount  # noqa: SLF001


def _find_name_anywhere(reservation: Reservation) -> SharedName | None:
    name = _find_shared_name(reservation)
    return name and ("", ConsumerKind.POD, name[2])


def _remove_with_stored(
    reservations: Mapping[str, Reservation], snapshot: UsageSnapshot
) -> Iterator[tuple[str, Reservation]]:
    stored = {each.shared_name for uid, each in reservations.items() if uid in snapshot.used_by_consumer} - {None}
    for uid, reservation in _select_remaining(reservations, snapshot):
        if uid in snapshot.used_by_consumer or reservation.shared_name not in stored:
            yield uid, reservation


def _remove_with_deleted(
    reservations: Mapping[str, Reservation], snapshot: UsageSnapshot
) -> Iterator[tuple[str, Reservation]]:
    deleted = {each.shared_name for uid, each in reservations.items() if uid in snapshot.deleted} - {None}
    for uid, reservation in _select_remaining(reservations, snapshot):
        if reservation.shared_name not in deleted:
            yield uid, reservation


def _release_name(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    after = release(ledger, uid, attempt)
    if after is ledger:
        return ledger
    name = ledger.reservations[uid].shared_name
    for other in ledger.attempts_by_name[name].uids if name else ():
        after = after.with_reservation(other, None)
    return after


def _cover_beside_reserved(
    uid: str, reservation: Reservation, snapshot: UsageSnapshot, _served: Collection[str]
) -> Reservation:
    return _cover_by_holder(uid, reservation, snapshot, ())


def _find_taken_covering(ledger: Ledger, request: ReservationRequest) -> CountedPod:
    return request.holder if request.holder.part else _find_covering(ledger, request)


def _find_served_holder(snapshot: UsageSnapshot, name: PodName, uid: str) -> CountedPod:
    return _find_holder(replace(snapshot, served=frozenset()), name, uid)


def _leave_names_covered(ledger: Ledger, _pod_uid: str) -> Ledger:
    return ledger


def _cover_as_before(
    uid: str, reservation: Reservation, snapshot: UsageSnapshot, served: Collection[str]
) -> Reservation:
    renewed = _cover_by_holder(uid, reservation, snapshot, served)
    return renewed if renewed.pod_uid else reservation


def _count_without_storing(transition: ReserveTransition, ledger: Ledger) -> Any:
    counted = _recount(transition, ledger)
    if counted is None or not ledger.resources >= transition.charge.cap.counted:
        return counted
    return counted._replace(ledger=ledger)


NAME_MUTANTS: Mapping[str, Mutant] = {
    "adds_names_up": create_mutant(
        13,
        "adds up the attempts of one name",
        patch.object(Reservation, "shared_name", property(lambda _: None)),
        "names",
    ),
    "takes_names_of_all": create_mutant(
        13,
        "takes equal names of different namespaces and kinds for one",
        patch.object(Reservation, "shared_name", property(_find_name_anywhere)),
        "names",
        seed=6,
    ),
    "settles_names": create_mutant(
        13,
        "removes the attempts of a name once a pod of that name is seen",
        patch.object(recount, "_select_remaining", _remove_with_stored),
        "names",
        seed=10,
    ),
    "forgets_names": create_mutant(
        13,
        "removes the attempts of a name once a pod of that name is deleted",
        patch.object(recount, "_select_remaining", _remove_with_deleted),
        "names",
        seed=2,
    ),
    "covers_beside_names": create_mutant(
        13,
        "lets the part of a pod cover the scheduler's claim although another pod of its name may still be stored",
        patch.object(reserve, "_may_be_followed", lambda *_: False),
        "the scheduler's claims, names",
        seed=4,
    ),
    "adds_to_counted": create_mutant(
        13,
        "adds the attempts of a name to the counted pod of that name",
        patch.object(UsageSnapshot, "find_holder", lambda *_: NO_POD),
        "names",
        seed=6,
    ),
    "covers_by_reserved": create_mutant(
        13,
        "lets a pod cover the attempts of its name in a recount although a claim of the scheduler has a reservation",
        patch.object(recount, "_cover_by_holder", _cover_beside_reserved),
        "the scheduler's claims, names",
        seed=2,
    ),
    "covers_by_taken": create_mutant(
        13,
        "lets a pod cover a creation of its name although a claim of the scheduler for it has a reservation",
        patch.object(reserve, "_find_covering", _find_taken_covering),
        "the scheduler's claims, names",
        seed=1,
    ),
    "covers_by_served": create_mutant(
        13,
        "lets a pod cover the attempts of its name although a claim of the scheduler for it is counted",
        patch.object(UsageSnapshot, "find_holder", _find_served_holder),
        "the scheduler's claims, names",
        seed=4,
    ),
    "leaves_names_covered": create_mutant(
        13,
        "lets a pod cover a claim of the scheduler, and the attempts of its name as before",
        patch.object(reserve, "_uncover_names", _leave_names_covered),
        "the scheduler's claims, names",
        seed=4,
    ),
    "covers_as_before": create_mutant(
        13,
        "lets a pod that a recount does not find cover the attempts of its name as before",
        patch.object(recount, "_cover_by_holder", _cover_as_before),
        "names",
        seed=2,
    ),
    "covers_by_unstored": create_mutant(
        13,
        "lets a pod cover a creation of its name by a count that it does not store",
        patch.object(ReserveTransition, "_recount", _count_without_storing),
        "names",
        seed=17,
    ),
    "releases_names": create_mutant(
        13,
        "releases the attempts of a name together",
        patch.object(charge_transitions, "release", _release_name),
        "names",
        seed=11,
    ),
}
