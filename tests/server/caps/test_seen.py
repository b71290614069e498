"""What is remembered of ledgers."""

from tests.state.ledger.ledgers import empty, gpus, granted, wants
from webhook.server.caps.seen import Seen, SeenLedgers
from webhook.state.ports import LedgerKey, Write, WriteEnd

A, B = LedgerKey("gpus-1", "a"), LedgerKey("gpus-2", "b")


def test_a_ledger_is_as_it_was_written_last_and_no_other_write_counts() -> None:
    seen = SeenLedgers(lambda: 7.0)
    seen.wrote(Write(A, None, empty(), 1, 0.0, WriteEnd.STORED))
    for end in (WriteEnd.CONFLICT, WriteEnd.LOST, WriteEnd.FAILED):
        seen.wrote(Write(A, empty(), empty(tally=gpus(3)), 1, 0.0, end))
    assert seen.all() == {A: Seen(empty(), 7.0)}


def test_ledgers_that_promise_something_or_nothing_yet_are_unsettled_until_they_are_not() -> None:
    seen = SeenLedgers(lambda: 0.0)
    seen.saw(A, granted(empty(), wants()))
    seen.saw(B, empty(converging="n1"))
    assert seen.unsettled() == {A, B}
    seen.saw(A, empty(tally=gpus(1)))
    assert seen.unsettled() == {B}
    seen.keep_only(["gpus-1"])
    assert seen.unsettled() == frozenset()
    assert seen.all().keys() == {A}
