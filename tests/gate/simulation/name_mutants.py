"""The mutants of the rule for names: what several attempts of one name reserve together."""

from collections.abc import Iterator, Mapping
from unittest.mock import patch

from tallygate.webhook.accounting.charge import ConsumerKind
from tallygate.webhook.gate import charge_transitions
from tallygate.webhook.state.ledger import recount, reserve
from tallygate.webhook.state.ledger.ledger import Ledger, Reservation, SharedName
from tallygate.webhook.state.ledger.recount import UsageSnapshot
from tallygate.webhook.state.ledger.reserve import release
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_select_remaining = recount._select_remaining  # noqa: SLF001  # the replaced function
_find_shared_name = Reservation.shared_name.fget  # type: ignore[attr-defined]  # a property


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
    "releases_names": create_mutant(
        13,
        "releases the attempts of a name together",
        patch.object(charge_transitions, "release", _release_name),
        "names",
        seed=11,
    ),
}
