"""What is remembered of ledgers."""

from tests.state.ledger.ledgers import empty, gpus, granted, wants
from webhook.server.telemetry.ledger_metrics import ObservedLedger, ObservedLedgers
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult

A, B = LedgerKey("gpus-1", "a"), LedgerKey("gpus-2", "b")


def test_a_ledger_is_as_it_was_written_last_and_no_other_write_counts() -> None:
    seen = ObservedLedgers(lambda: 7.0)
    seen.record_write(LedgerWrite(A, None, empty(), 1, 0.0, WriteResult.STORED))
    for end in (WriteResult.CONFLICT, WriteResult.UNKNOWN, WriteResult.FAILED):
        seen.record_write(LedgerWrite(A, empty(), empty(used=gpus(3)), 1, 0.0, end))
    assert seen.list_all() == {A: ObservedLedger(empty(), 7.0)}


def test_ledgers_that_promise_something_or_nothing_yet_are_unsettled_until_they_are_not() -> None:
    seen = ObservedLedgers(lambda: 0.0)
    seen.record(A, granted(empty(), wants()))
    seen.record(B, empty(initializer="n1"))
    assert seen.list_pending() == {A, B}
    seen.record(A, empty(used=gpus(1)))
    assert seen.list_pending() == {B}
    seen.retain_caps(["gpus-1"])
    assert seen.list_pending() == frozenset()
    assert seen.list_all().keys() == {A}
