"""The mutants of the callers in worlds whose class of claims comes, goes and leads elsewhere."""

from collections.abc import Mapping
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate import ledger_reconciler
from tallygate.review import charged_requests
from tallygate.review.cap_charge import CapCharge
from tallygate.state.ledger.expire import ReservationAges
from tallygate.state.ledger.ledger import NO_REMAPPING, Ledger
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import CLASS
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_MIX = "classes"
_with_former = ActiveCap.with_former
_adapt_to_ledger = CapCharge.adapt_to_ledger
_list_ended_mappings = UsageLister.list_ended_mappings


def _forget_missing(cap: ActiveCap, mappings: ClassMappings) -> ActiveCap:
    return cap if CLASS not in cap.classes.resources_by_class else _with_former(cap, mappings)


def _map_by_today(cap: ActiveCap, mappings: ClassMappings) -> ActiveCap:
    return cap if CLASS in cap.classes.resources_by_class else _with_former(cap, mappings)


def _decide_no_allocation(charge: CapCharge, ledger: Ledger) -> CapCharge:
    adapted = _adapt_to_ledger(charge, ledger)
    return charge if charge.fixed.requested and not charge.requested else adapted


def _end_with_reservations(lister: UsageLister, cap: ActiveCap, key: LedgerKey, ledger: Ledger) -> ClassMappings:
    return _list_ended_mappings(lister, cap, key, ledger.with_reservations(()))


def _end_all(_lister: UsageLister, cap: ActiveCap, _key: LedgerKey, ledger: Ledger) -> ClassMappings:
    return cap.classes.select_former(ledger.mappings)


def _confirm_at_once(ledger: Ledger, _ages: ReservationAges, _listed_at: float) -> Ledger:
    if ledger.compute_charged().find_excess(ledger.hard):
        return ledger
    return replace(ledger, remapping=NO_REMAPPING)


CLASS_MUTANTS: Mapping[str, Mutant] = {
    "forgets_the_class": create_mutant(
        8,
        "forgets the mapping of a class that does not exist any more",
        patch.object(ActiveCap, "with_former", _forget_missing),
        _MIX,
        seed=5,
    ),
    "maps_by_today": create_mutant(
        8,
        "counts a class that leads elsewhere by its mapping of today alone",
        patch.object(ActiveCap, "with_former", _map_by_today),
        _MIX,
        seed=2,
    ),
    "ends_the_mapping": create_mutant(
        8,
        "ends the mapping of a class although claims count by it",
        patch.object(UsageLister, "list_ended_mappings", _end_all),
        _MIX,
        seed=1,
    ),
    "ends_in_reservations": create_mutant(
        8,
        "ends the mapping of a class although a claim in flight may count by it",
        patch.object(UsageLister, "list_ended_mappings", _end_with_reservations),
        _MIX,
        seed=13,
    ),
    "keeps_the_mapping": create_mutant(
        8,
        "keeps the mapping of a class that no claim counts by any more",
        patch.object(UsageLister, "list_ended_mappings", lambda *_: NO_MAPPINGS),
        _MIX,
        seed=1,
    ),
    "guesses_the_class": create_mutant(
        10,
        "takes a class that it does not see for one that leads nowhere",
        patch.object(charged_requests, "require_seen_class", lambda *_: None),
        _MIX,
    ),
    "decides_no_allocation": create_mutant(
        10,
        "decides on no allocation of a claim that counts the same whatever it gets",
        patch.object(CapCharge, "adapt_to_ledger", _decide_no_allocation),
        _MIX,
        seed=46,
    ),
    "confirms_at_once": create_mutant(
        10,
        "decides on no allocation any more as soon as a count is within the limit",
        patch.object(ledger_reconciler, "confirm_mappings", _confirm_at_once),
        _MIX,
        seed=379,
    ),
}
