"""The mutants of rule 7 about new caps: when one counts, when it is recorded, and when its ledger is lost."""
# ruff: noqa: SLF001  # the replaced functions are private to the classes of the product

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.review.cap_charge import CapChargeResult
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import TransitionResult
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_apply = ReserveTransition._apply
_is_new = CapActivation.is_new
_known_new: WeakKeyDictionary[CapActivation, set[str]] = WeakKeyDictionary()


def _remember_newness(activation: CapActivation, cap: str) -> bool:
    known = _known_new.setdefault(activation, set())
    if cap not in known and not _is_new(activation, cap):
        return False
    known.add(cap)
    return True


def _admit_without_reservation(transition: ReserveTransition, stored: Ledger | None) -> TransitionResult[Any]:
    result = _apply(transition, stored)
    is_uncounted = result.ledger is not None and result.ledger.counts_first
    if not is_uncounted or not isinstance(result.outcome, CapChargeResult):
        return result
    return TransitionResult(result.outcome, result.outcome.before if stored is None else None, accepts_cached=True)


NEW_CAP_MUTANTS: Mapping[str, Mutant] = {
    "reads_no_record": create_mutant(
        7,
        "takes every missing ledger for that of a new cap",
        patch.object(CapActivation, "is_new", lambda _activation, _cap: True),
        mix="new caps",
        seed=3,
    ),
    "remembers_newness": create_mutant(
        7,
        "takes a cap for new that was so when it read the record last",
        patch.object(CapActivation, "is_new", _remember_newness),
        mix="new caps",
        seed=3,
    ),
    "reserves_nothing_yet": create_mutant(
        7,
        "admits under a new cap without a reservation",
        patch.object(ReserveTransition, "_apply", _admit_without_reservation),
        mix="new caps",
        seed=208,
    ),
}
