"""The mutants of guarantees (rule 15)."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.state.ledger import reserve as reserving
from tallygate.state.ledger.guarantees import AmountsByNamespace, Guarantees, create_guarantees
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import ReservationRequest
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_recount = Guarantees.recount
_sum_unspent = Guarantees._sum_unspent  # noqa: SLF001  # it is replaced


def _keep_parts(guarantees: Guarantees, used: AmountsByNamespace) -> Guarantees:
    kept = {name: guarantees.used.get(name, amounts) for name, amounts in used.items()}
    return _recount(guarantees, kept)


def _keep_members(guarantees: Guarantees, used: AmountsByNamespace) -> Guarantees:
    former = {name: NO_AMOUNTS for name in guarantees.amounts if name not in used}
    return create_guarantees(guarantees.amounts, {**used, **former})


def _count_twice(guarantees: Guarantees, reserved: AmountsByNamespace) -> Any:
    return _sum_unspent(guarantees, {name: amounts + amounts for name, amounts in reserved.items()})


def _guard_own(ledger: Ledger, request: ReservationRequest) -> Mapping[str, int]:
    own = Guarantees(request.guarantees, ledger.guarantees.used)
    return own.compute_unspent(ledger.reserved_by_namespace, request.namespace)


def _create(description: str, replacement: Any, mix: str = "guarantees", seed: int = 0) -> Mutant:
    return create_mutant(15, description, replacement, mix, seed)


GUARANTEE_MUTANTS: Mapping[str, Mutant] = {
    "keeps_old_parts": _create(
        "keeps what an older count found for a namespace with a guarantee",
        patch.object(Guarantees, "recount", _keep_parts),
    ),
    "keeps_former_guarantees": _create(
        "keeps the guarantee of a namespace that is no member any more",
        patch.object(Guarantees, "recount", _keep_members),
    ),
    "counts_owners_twice": _create(
        "counts the reservations of a namespace twice against its guarantee",
        patch.object(Guarantees, "_sum_unspent", _count_twice),
    ),
    "guards_own_guarantees": _create(
        "leaves the guarantees of its own policy free, and not those of the ledger",
        patch.object(reserving, "compute_unspent", _guard_own),
        seed=5,
    ),
}
