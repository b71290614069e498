"""Ledgers that several replicas share: their content applies, and they reserve nothing until they are counted."""

from msgspec import structs

from tallygate.accounting.amounts import Amounts
from tallygate.state.in_memory import MemoryLedgers
from tests.gate.gate_fixture import GPU, TWO, GateFixture, raise_missing, response
from tests.state.transitions import Put


def create_shared_ledgers() -> MemoryLedgers:
    """Return ledgers that other replicas may have written before."""
    return MemoryLedgers(is_standalone=False)


def test_a_ledger_that_others_may_have_deleted_is_created_and_reserves_nothing_yet() -> None:
    fixture = GateFixture(TWO, ledgers=create_shared_ledgers())
    assert response(fixture.create(1))["status"]["code"] == 429
    ledgers = [fixture.find_ledger(cap) for cap in ("a-first", "b-second")]
    assert all(ledger is not None and ledger.initializer for ledger in ledgers)
    assert response(fixture.create(1))["status"]["code"] == 429
    assert [fixture.find_ledger(cap) for cap in ("a-first", "b-second")] == ledgers


def test_a_dry_run_creates_no_ledger() -> None:
    fixture = GateFixture(ledgers=create_shared_ledgers())
    assert response(fixture.create(1, dryRun=True))["status"]["code"] == 429
    assert fixture.find_ledger() is None


def test_a_shared_ledger_states_its_limits_and_resources() -> None:
    fixture = GateFixture(ledgers=create_shared_ledgers())
    fixture.create(1)
    fixture.change_ledger(initializer="", resources=frozenset())
    assert response(fixture.create(1))["status"]["code"] == 429
    fixture.change_ledger(resources=frozenset({GPU}), hard=Amounts({GPU: 1}))
    assert response(fixture.create(1))["allowed"]
    assert response(fixture.create(1))["status"]["code"] == 403
    assert fixture.read_reserved() == {GPU: 1}


def test_a_cap_rejects_though_another_cap_must_be_counted_first() -> None:
    fixture = GateFixture(TWO, ledgers=create_shared_ledgers())
    fixture.create(1)
    fixture.ledgers.transact(
        fixture.get_ledger_key("b-second"),
        Put(lambda found: structs.replace(found or raise_missing(), initializer="", resources=frozenset({GPU}))),
        0.0,
    )
    assert response(fixture.create(5))["status"]["code"] == 403


def test_an_initializing_ledger_makes_the_client_retry() -> None:
    fixture = GateFixture()
    fixture.create(1)
    fixture.change_ledger(initializer="m1")
    assert response(fixture.create(1))["status"]["code"] == 429
    assert fixture.read_reserved() == {GPU: 1}
