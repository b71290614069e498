"""The ledgers that a replica observed last."""

from tallygate.server.telemetry.ledger_metrics import ObservedLedger, ObservedLedgers
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteResult
from tests.state.ledger.ledger_builders import create_request, empty_ledger, expect_reserved, gpus

A, B = LedgerKey("gpus-1", "a"), LedgerKey("gpus-2", "b")


def test_a_ledger_is_observed_as_stored_last_and_no_failed_write_counts() -> None:
    observed = ObservedLedgers(lambda: 7.0)
    observed.record_write(LedgerWrite(A, None, empty_ledger(), 1, 0.0, WriteResult.STORED))
    for result in (WriteResult.CONFLICT, WriteResult.UNKNOWN, WriteResult.FAILED):
        observed.record_write(LedgerWrite(A, empty_ledger(), empty_ledger(used=gpus(3)), 1, 0.0, result))
    assert observed.list_all() == {A: ObservedLedger(empty_ledger(), 7.0)}


def test_ledgers_with_reservations_and_initializing_ledgers_are_pending() -> None:
    observed = ObservedLedgers(lambda: 0.0)
    observed.record(A, expect_reserved(empty_ledger(), create_request()))
    observed.record(B, empty_ledger(initializer="n1"))
    assert observed.list_pending() == {A, B}
    observed.record(A, empty_ledger(used=gpus(1)))
    assert observed.list_pending() == {B}
    observed.retain_caps(["gpus-1"])
    assert observed.list_pending() == frozenset()
    assert observed.list_all().keys() == {A}


def test_a_write_that_ended_during_a_transaction_is_newer_than_its_result() -> None:
    now = [1.0]
    observed = ObservedLedgers(lambda: now[0])
    observed.record(A, empty_ledger(used=gpus(1)))
    now[0], since = 3.0, 2.0
    reserved = expect_reserved(empty_ledger(), create_request())
    observed.record_write(LedgerWrite(A, empty_ledger(), reserved, 1, 0.0, WriteResult.STORED))
    observed.record(A, empty_ledger(), since)
    assert observed.list_all() == {A: ObservedLedger(reserved, 3.0)}
    assert observed.list_pending() == {A}
    now[0], since = 5.0, 4.0
    observed.record(A, empty_ledger(), since)
    assert observed.list_pending() == frozenset()
