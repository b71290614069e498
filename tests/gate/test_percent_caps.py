"""Caps in percent at the gate: the limit follows the capacity, and without a known capacity there is no decision."""

import json

import pytest

from tallygate.admission.capacity_limits import Capacity
from tallygate.gate.decisions import UndecidedError
from tallygate.state.in_memory import MemoryLedgers
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU, GateFixture
from tests.gate.replica_fixture import ReplicaFixture

SHARE = CAP.replace(f"{GPU}: 4", f"{GPU}: 25%")


def _set_capacity(fixture: GateFixture, capacity: Capacity) -> None:
    fixture.cap_sources = fixture.cap_sources._replace(capacities={"gpus": {GPU: capacity}})


def _read_message(fixture: GateFixture, gpus: int) -> str:
    status = json.loads(fixture.create(gpus).body)["response"].get("status") or {}
    return str(status.get("message", ""))


def test_the_limit_follows_the_capacity_within_one_ledger() -> None:
    fixture = GateFixture(SHARE)
    _set_capacity(fixture, Capacity(16))
    assert _read_message(fixture, 4) == ""
    assert "hard 4 (25% of 16), free 0" in _read_message(fixture, 1)
    _set_capacity(fixture, Capacity(24))
    assert _read_message(fixture, 2) == ""
    assert "hard 6 (25% of 24), free 0" in _read_message(fixture, 1)
    _set_capacity(fixture, Capacity(8))
    assert "used 0, reserved 6, hard 2 (25% of 8), free 0" in _read_message(fixture, 1)


def test_without_a_known_capacity_there_is_no_decision_about_its_resource() -> None:
    fixture = GateFixture(SHARE)
    with pytest.raises(UndecidedError) as error:
        fixture.create(1)
    assert str(error.value) == (
        "cap gpus: hard 25% of nvidia.com/gpu is of a capacity that is not known: no nodes are known here"
    )
    assert fixture.create(0).record.verdict == "allow"
    assert fixture.find_ledger() is None


def _create_replica(capacity: int | None, text: str = SHARE) -> ReplicaFixture:
    """Return a replica of a cluster with this capacity of GPUs, or with one that is not known, and active ledgers."""
    replica = ReplicaFixture(text)
    replica.follow_gate()
    if capacity is not None:
        _set_capacity(replica, Capacity(capacity))
    replica.activate_ledgers()
    return replica


def _forget_capacity(fixture: GateFixture) -> None:
    fixture.cap_sources = fixture.cap_sources._replace(capacities={})


def test_the_leader_writes_a_fall_and_a_rise_of_the_capacity() -> None:
    replica = _create_replica(16)
    assert replica.read_ledger().hard == {GPU: 4}
    for capacity, hard in ((8, 2), (24, 6)):
        _set_capacity(replica, Capacity(capacity))
        replica.reconcile()
        assert replica.read_ledger().hard == {GPU: hard}


def test_a_reconciliation_at_an_unknown_capacity_keeps_the_limit_of_the_ledger() -> None:
    replica = _create_replica(16, f"{SHARE}  soft: {{pods: 3}}\n")
    _forget_capacity(replica)
    replica.store_pod("u1", 1)
    replica.observe("u1")
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 4}
    assert replica.count_gpus() == (1, 0)


def test_another_limit_changes_while_that_of_an_unknown_capacity_is_kept() -> None:
    replica = _create_replica(16, SHARE.replace("25%", "25%, pods: 10"))
    _forget_capacity(replica)
    replica.policies = parse_policies(SHARE.replace("25%", "50%, pods: 5"))
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 4, "pods": 5}


def test_a_ledger_that_is_created_at_an_unknown_capacity_gets_its_limit_once_that_is_known() -> None:
    replica = _create_replica(None)
    assert replica.read_ledger().hard == {}
    with pytest.raises(UndecidedError):
        replica.request_pod("u1", 1)
    _set_capacity(replica, Capacity(16))
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 4}
    assert (replica.request_pod("u2", 4), replica.request_pod("u3", 1)) == (200, 403)


def test_a_charge_under_another_name_keeps_the_limit_of_an_unknown_capacity() -> None:
    """Charge by a gate that watches no cluster, and by one that does."""
    text = SHARE.replace("25%", "25%, pods: 10")
    fixture = GateFixture(text, ledgers=MemoryLedgers())
    _set_capacity(fixture, Capacity(16))
    assert fixture.create(1).record.verdict == "allow"
    _forget_capacity(fixture)
    assert fixture.create(0).record.verdict == "allow"
    ledger = fixture.find_ledger()
    assert ledger is not None
    assert ledger.hard == {GPU: 4, "pods": 10}
    replica = _create_replica(16, text)
    _forget_capacity(replica)
    assert replica.request_pod("u1", 0) == 200
    assert replica.read_ledger().hard == {GPU: 4, "pods": 10}
