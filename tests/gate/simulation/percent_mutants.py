"""The mutants of limits that are percentages of the capacity of nodes (rule 8)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.capacity_limits import Capacity
from tallygate.cluster import capacities
from tallygate.cluster.capacities import CapacitySources, ComputedCapacities
from tallygate.gate import charge_transitions, settled_capacities
from tallygate.gate.settled_capacities import SettledCapacities
from tallygate.policy.model import PolicySet
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import ReservationRequest, reserve
from tallygate.state.ports import RecordedStep
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_NODES, _FAULTS = "nodes", "nodes and faults"
_Window = settled_capacities._Window  # noqa: SLF001  # its functions are replaced
_compute_capacities = capacities.compute_capacities
_restore = SettledCapacities._restore  # noqa: SLF001


def _reserve_by_own_rise(ledger: Ledger, request: ReservationRequest) -> Any:
    outcome = reserve(replace(ledger, hard=ledger.hard.merge_max(request.hard)), request)
    return replace(outcome, ledger=replace(outcome.ledger, hard=ledger.hard))


def _leave_out_node(policies: PolicySet, sources: CapacitySources, now: datetime | None) -> ComputedCapacities:
    nodes = sorted(sources.nodes)
    return _compute_capacities(policies, sources._replace(nodes=nodes[:2] + nodes[3:]), now)


def _count_twice(policies: PolicySet, sources: CapacitySources, now: datetime | None) -> ComputedCapacities:
    nodes = sorted(sources.nodes)
    return _compute_capacities(policies, sources._replace(nodes=nodes + nodes[3:]), now)


def _find_capacity_now(window: Any, _settle: float) -> Capacity | None:
    return None if window.amount is None else Capacity(window.amount)


def _renew_steps(settled: SettledCapacities, steps: Sequence[RecordedStep], settle: float) -> Any:
    return _restore(settled, [step._replace(ended_at=None) for step in steps], settle)


def _never_lower(cap: ActiveCap, stored: Amounts) -> Amounts:
    return cap.hard.merge_max(stored)


def _lower_unknown(cap: ActiveCap, _stored: Amounts) -> Amounts:
    return Amounts({**cap.hard, **dict.fromkeys(cap.limits.unknown, 0)})


def _create(description: str, replacement: Any, mix: str = _NODES, seed: int = 0) -> Mutant:
    return create_mutant(8, description, replacement, mix, seed)


PERCENT_MUTANTS: Mapping[str, Mutant] = {
    "uses_the_unwritten": _create(
        "uses more capacity before the leader has written the limit",
        patch.object(charge_transitions, "reserve", _reserve_by_own_rise),
        seed=1,
    ),
    "forgets_a_node": _create("leaves out a node", patch.object(capacities, "compute_capacities", _leave_out_node)),
    "counts_a_node_twice": _create(
        "counts a node twice", patch.object(capacities, "compute_capacities", _count_twice), seed=1
    ),
    "falls_at_once": _create(
        "lowers the limit as soon as a node is removed", patch.object(_Window, "find_capacity", _find_capacity_now)
    ),
    "starts_without_record": _create(
        "starts without what the leader has recorded of capacities",
        patch.object(SettledCapacities, "_restore", lambda _settled, _steps, _settle: _Window()),
        _FAULTS,
        seed=2,
    ),
    "starts_anew": _create(
        "takes every recorded capacity for one that was there at its start",
        patch.object(SettledCapacities, "_restore", _renew_steps),
        _FAULTS,
        seed=21,
    ),
    "believes_old_records": _create(
        "takes capacities from a record of any age",
        patch.object(SettledCapacities, "_is_recent", lambda _settled, _record, _settle: True),
        _FAULTS,
        seed=31,
    ),
    "never_lowers": _create(
        "writes no lower limit into a ledger", patch.object(ActiveCap, "complete_limits", _never_lower)
    ),
    "unknown_is_nothing": _create(
        "takes a capacity that it does not know for none",
        patch.object(ActiveCap, "complete_limits", _lower_unknown),
        _FAULTS,
    ),
    "drops_the_unknown": _create(
        "removes a limit from a ledger whose capacity it does not know",
        patch.object(ActiveCap, "complete_limits", lambda cap, _stored: cap.hard),
        _FAULTS,
    ),
}
