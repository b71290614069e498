"""Guarantees beside the other guards of a ledger: surges, allocations and workloads as a whole (rule 15)."""

from typing import Any

from tallygate.state.ledger.guarantees import create_guarantees
from tallygate.state.ledger.ledger import Ledger, Surge
from tallygate.state.ledger.reserve import DeviceTerms, Prerequisite, WorkloadTerms
from tallygate.state.ledger.surges import SurgeTerms
from tests.state.ledger.ledger_builders import (
    GPU,
    create_request,
    empty_ledger,
    expect_deferred,
    expect_exceeded,
    expect_reserved,
    gpus,
)

_HARD, _OWNED = 8, 3


def _create_ledger(used: int = 0, **more: Any) -> Ledger:
    """Return a ledger in which team-b has a guarantee, and others use some GPUs."""
    guarantees = create_guarantees({"team-b": gpus(_OWNED)}, {"team-b": gpus(0)})
    return empty_ledger(_HARD, used=gpus(used), guarantees=guarantees, **more)


def test_a_pod_that_surges_leaves_guarantees_free_and_its_time_begins_where_it_takes_them() -> None:
    ledger = _create_ledger(5, surge=Surge(gpus(1)))
    terms = SurgeTerms(gpus(1), 60, 1000)
    after = expect_reserved(ledger, create_request("u1", 1, hard=_HARD, surge=terms))
    assert after.surge.since == 1000, "6 are charged, and 3 are guaranteed"
    assert expect_exceeded(after, create_request("u2", 1, hard=_HARD, surge=terms)) == {GPU: 1}
    late = SurgeTerms(gpus(2), 60, 1060)
    assert expect_exceeded(after, create_request("u3", 1, hard=_HARD, surge=late)) == {GPU: 2}


def test_an_allocation_leaves_guarantees_free() -> None:
    devices = DeviceTerms(allocates_at=7)
    ledger = _create_ledger(4, claims_revision=7)
    request = create_request("c1", 2, 0, hard=_HARD, devices=devices)
    assert expect_exceeded(ledger, request) == {GPU: 1}
    expect_reserved(ledger, create_request("c2", 1, 0, hard=_HARD, devices=devices))


def test_a_workload_reserves_as_a_whole_beside_guarantees_and_its_pods_take_that_over() -> None:
    workload = WorkloadTerms("batch/v1/Job")
    assert expect_exceeded(_create_ledger(), create_request("w1", 6, hard=_HARD, workload=workload)) == {GPU: 1}
    ledger = expect_reserved(_create_ledger(), create_request("w1", 5, hard=_HARD, workload=workload))
    pods = WorkloadTerms(owner_uids=("w1",))
    after = expect_reserved(ledger, create_request("u1", 5, hard=_HARD, workload=pods))
    assert after.compute_charged() == gpus(5)
    expect_reserved(after, create_request("u2", _OWNED, hard=_HARD, namespace="team-b"))


def test_a_ledger_is_counted_by_namespace_first() -> None:
    request = create_request("u1", 1, hard=_HARD, guarantees={"team-c": gpus(1)})
    assert expect_deferred(_create_ledger(), request) is Prerequisite.COUNT_GUARANTEES
