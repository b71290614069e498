"""The mutants of the rules for classes of devices that come, go and lead elsewhere."""

from collections.abc import Iterable, Mapping

from msgspec import structs

from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.state.ledger.expire import ReservationAges
from tallygate.state.ledger.ledger import NO_REMAPPING, Ledger
from tests.schedules import Mutant
from tests.state.simulation.class_rules import ELSEWHERE, MAPPED, MISSING, end_mappings, select_mappings
from tests.state.simulation.runner import mutate
from tests.state.simulation.scenarios import SCENARIOS

_CLASSES = SCENARIOS["classes"]


def _forget_missing(seen: str, recorded: ClassMappings) -> ClassMappings:
    return NO_MAPPINGS if seen == MISSING else select_mappings(seen, recorded)


def _map_by_today(seen: str, recorded: ClassMappings) -> ClassMappings:
    return NO_MAPPINGS if seen == ELSEWHERE else select_mappings(seen, recorded)


def _end_with_reservations(ledger: Ledger, seen: str, counted: Iterable[int]) -> ClassMappings:
    return end_mappings(ledger.with_reservations(()), seen, counted)


def _end_with_claims(ledger: Ledger, seen: str, _counted: Iterable[int]) -> ClassMappings:
    return end_mappings(ledger, seen, ())


def _keep_former(ledger: Ledger, _seen: str, counted: Iterable[int]) -> ClassMappings:
    return end_mappings(ledger, MAPPED, counted)


def _confirm_by_charge(ledger: Ledger, _ages: ReservationAges, _listed_at: float) -> Ledger:
    is_above = bool(ledger.compute_charged().find_excess(ledger.hard))
    return ledger if is_above else structs.replace(ledger, remapping=NO_REMAPPING)


CLASS_MUTANTS: Mapping[str, Mutant] = {
    "forgets_missing": mutate(
        8, "forgets the mapping of a class that does not exist any more", _CLASSES, 7, select_mappings=_forget_missing
    ),
    "maps_by_today": mutate(
        8,
        "counts a class that leads elsewhere by its mapping of today alone",
        _CLASSES,
        11,
        select_mappings=_map_by_today,
    ),
    "ends_with_claims": mutate(
        8, "ends a former mapping although stored claims count by it", _CLASSES, 7, end_mappings=_end_with_claims
    ),
    "ends_with_reservations": mutate(
        8,
        "ends a former mapping although a claim in flight may count by it",
        _CLASSES,
        23,
        end_mappings=_end_with_reservations,
    ),
    "keeps_former": mutate(
        8, "keeps a former mapping by which nothing counts any more", _CLASSES, 0, end_mappings=_keep_former
    ),
    "guesses_missing": mutate(
        10, "takes a class that does not exist for one that leads nowhere", _CLASSES, 46, is_class_known=lambda _: True
    ),
    "no_allocation_again": mutate(
        10,
        "decides on no allocation of a claim that counts the same, whatever mappings are new",
        _CLASSES,
        145,
        is_decided_again=lambda *_: False,
    ),
    "confirms_by_charge": mutate(
        10,
        "decides on no allocation any more as soon as a count is within the limit",
        _CLASSES,
        145,
        confirm_mappings=_confirm_by_charge,
    ),
}
