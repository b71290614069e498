"""The observer of batched ledgers gets every write: its result, its callers, and its duration."""

import pytest

from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.ports import LedgerWrite, RetryLaterError, StoreUnavailableError, WriteResult
from tests.state.batched_ledgers.concurrent_callers import ConcurrentCallers
from tests.state.batched_ledgers.scripted_store import (
    KEY,
    Clock,
    Effect,
    ScriptedStore,
    do_nothing,
    fail_throttled,
    fail_unavailable,
    lose_request,
    lose_response,
)
from tests.state.transitions import Put, Read, Take, free_ledger


class ObservedLedgers:
    """Ledgers over a scripted store, and the observer of their writes."""

    def __init__(self, *writes: Effect) -> None:
        self.writes: list[LedgerWrite] = []
        self.clock = Clock()
        self.store = ScriptedStore(free_ledger(4), writes=writes)
        self.ledgers = BatchedLedgers(self.store, self.clock, self)

    def record_write(self, write: LedgerWrite) -> None:
        """Record the write."""
        self.writes.append(write)

    def list_results(self) -> list[WriteResult]:
        """Return the result of each write."""
        return [write.result for write in self.writes]

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.seconds += seconds


def test_a_write_is_observed_with_its_ledger_and_duration() -> None:
    observed = ObservedLedgers(lambda _: observed.wait(0.25))
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.writes == [LedgerWrite(KEY, free_ledger(4), observed.store.ledger, 1, 0.25, WriteResult.STORED)]


def test_the_callers_of_a_shared_write_are_counted() -> None:
    writes: list[LedgerWrite] = []

    class Observer:
        def record_write(self, write: LedgerWrite) -> None:
            writes.append(write)

    store = ScriptedStore(
        free_ledger(9), writes=[do_nothing, lambda _: callers.start(*(Take(f"u{each}") for each in range(1, 6)))]
    )
    callers = ConcurrentCallers(store)
    callers.ledgers = BatchedLedgers(store, callers.clock, Observer())
    callers.transact(Put(lambda before: before or free_ledger(9)))
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True] * 5
    assert [write.callers for write in writes] == [1, 1, 5]


def test_a_read_is_not_observed() -> None:
    observed = ObservedLedgers()
    observed.ledgers.transact(KEY, Read(), 10.0)
    assert not observed.ledgers.transact(KEY, Take("u1", 5), 10.0)
    assert observed.writes == []


def test_a_conflict_is_observed_before_the_next_write() -> None:
    observed = ObservedLedgers(lambda store: store.change(free_ledger(5)))
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.list_results() == [WriteResult.CONFLICT, WriteResult.STORED]


@pytest.mark.parametrize(("effect", "results"), [(lose_response, ["unknown"]), (lose_request, ["unknown", "stored"])])
def test_a_lost_response_is_an_unknown_result(effect: Effect, results: list[str]) -> None:
    observed = ObservedLedgers(effect)
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.list_results() == results


@pytest.mark.parametrize(
    ("effect", "error"), [(fail_unavailable, StoreUnavailableError), (fail_throttled, RetryLaterError)]
)
def test_a_rejected_write_is_a_failed_result(effect: Effect, error: type[Exception]) -> None:
    observed = ObservedLedgers(effect)
    with pytest.raises(error):
        observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.list_results() == [WriteResult.FAILED]
