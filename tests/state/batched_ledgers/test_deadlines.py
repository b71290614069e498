"""The caller that serves the queue, its timeouts, and the waiting callers after a deadline."""

import pytest

from tallygate.state.ports import RetryLaterError, StoreUnavailableError
from tests.state.batched_ledgers.concurrent_callers import create_callers
from tests.state.batched_ledgers.scripted_store import ScriptedStore
from tests.state.transitions import Take, free_ledger


def test_after_the_deadline_of_a_serving_caller_the_next_one_serves() -> None:
    def slow(store: ScriptedStore) -> None:
        callers.start(Take("u1"), Take("u2"), deadline=100.0)
        callers.clock.seconds = 50.0
        store.change(free_ledger(4))  # the first caller must retry, and has no time for it

    callers = create_callers(writes=(slow,))
    with pytest.raises(RetryLaterError, match="others were in the way until the deadline"):
        callers.transact(Take("u0"))
    assert callers.collect_results() == [True, True]
    assert list(callers.store.ledger.reservations) == ["u1", "u2"]


def test_the_waiting_caller_with_the_latest_deadline_serves_next() -> None:
    def slow(store: ScriptedStore) -> None:
        callers.start(Take("u1"), deadline=51.0)
        callers.start(Take("u2"), deadline=53.0)
        callers.start(Take("u3"), deadline=52.0)
        callers.clock.seconds = 50.0
        store.change(free_ledger(4))

    callers = create_callers(writes=(slow,))
    with pytest.raises(RetryLaterError):
        callers.transact(Take("u0"))
    assert callers.collect_results() == [True] * 3
    assert callers.store.timeouts == [5.0, 5.0, 3.0, 3.0]


def test_a_call_that_uses_up_the_deadline_of_its_caller_does_not_fail_the_others() -> None:
    def hang(_: ScriptedStore) -> None:
        callers.start(Take("u1"), deadline=100.0)
        callers.clock.seconds = 50.0
        raise StoreUnavailableError("timed out")

    callers = create_callers(reads=(hang,))
    with pytest.raises(RetryLaterError):
        callers.transact(Take("u0"))
    assert callers.collect_results() == [True]


def test_the_timeout_of_a_call_is_the_time_of_its_caller_and_at_most_five_seconds() -> None:
    callers = create_callers()
    callers.transact(Take("u1"), deadline=2.0)
    callers.transact(Take("u2"), deadline=float("inf"))
    assert callers.store.timeouts == [2.0, 2.0, 5.0]


def test_nothing_is_called_after_the_deadline() -> None:
    callers = create_callers()
    callers.clock.seconds = 20.0
    with pytest.raises(RetryLaterError):
        callers.transact(Take("u1"))
    assert callers.store.calls == []


def test_a_waiting_caller_fails_at_its_deadline() -> None:
    waited: list[BaseException | None] = []

    def wait(_: ScriptedStore) -> None:
        callers.start(Take("u1"), deadline=0.0)
        waited.append(callers.futures[0].exception(30.0))

    callers = create_callers(writes=(wait,))
    assert callers.transact(Take("u0"))
    assert isinstance(waited[0], RetryLaterError)
    assert list(callers.store.ledger.reservations) == ["u0"]
