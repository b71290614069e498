"""Lost requests and responses, and errors: every waiting caller gets an outcome, and nothing is repeated."""

import pytest

from tallygate.state.ports import StoreUnavailableError
from tests.state.batched_ledgers.concurrent_callers import create_busy_callers, create_callers
from tests.state.batched_ledgers.scripted_store import (
    Effect,
    ScriptedStore,
    delay_request,
    do_nothing,
    fail_throttled,
    fail_unavailable,
    lose_request,
    lose_response,
)
from tests.state.contract import Crashing
from tests.state.transitions import GPU, Read, Take


def test_a_lost_request_is_sent_again() -> None:
    callers = create_callers(writes=(lose_request,))
    assert callers.transact(Take("u1"))
    assert callers.store.calls == ["read", "write", "read", "write"]
    assert callers.store.ledger.compute_charged() == {GPU: 1}


def test_a_write_whose_response_was_lost_is_not_repeated() -> None:
    callers = create_callers(1, writes=(lose_response,))
    assert callers.transact(Take("u1"))
    assert callers.store.calls == ["read", "write", "read"]
    assert callers.store.ledger.compute_charged() == {GPU: 1}


def test_another_attempt_of_the_same_pod_does_not_confirm_this_one() -> None:
    def other(store: ScriptedStore) -> None:
        step = Take("u1", by="n0")(store.ledger)
        assert step.ledger is not None
        store.change(step.ledger)
        lose_request(store)

    callers = create_callers(2, writes=(other,))
    assert callers.transact(Take("u1", by="n1"))
    assert callers.store.calls == ["read", "write", "read", "write"]
    assert callers.store.ledger.reservations["u1"].attempt == "n1"


def test_a_delayed_request_is_found_after_the_conflict() -> None:
    def deliver(store: ScriptedStore) -> None:
        for each in store.delayed:
            each()

    callers = create_callers(1, writes=(delay_request, deliver))
    assert callers.transact(Take("u1"))
    assert callers.store.calls == ["read", "write", "read", "write", "read"]
    assert callers.store.ledger.compute_charged() == {GPU: 1}


def test_every_caller_of_a_write_with_a_lost_response_gets_its_outcome() -> None:
    callers = create_busy_callers(
        lambda callers: callers.start(Take("u1"), Take("u2", 9), Take("u3")), writes=(lose_response,)
    )
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True, False, True]
    assert callers.store.calls == ["write", "write", "read"]
    assert callers.store.ledger.compute_charged() == {GPU: 3}


@pytest.mark.parametrize(
    ("fault", "message"), [(fail_unavailable, "connection refused"), (fail_throttled, "too many requests")]
)
def test_every_waiting_caller_gets_the_error_of_the_store(fault: Effect, message: str) -> None:
    callers = create_busy_callers(lambda callers: callers.start(Take("u1"), Take("u2")), writes=(fault,))
    assert callers.transact(Take("u0"))
    assert [str(each) for each in callers.collect_results()] == [message] * 2
    assert callers.transact(Take("u3"))
    assert callers.store.calls == ["write", "write", "read", "write"]


def test_a_read_that_fails_raises_its_error() -> None:
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        create_callers(reads=(fail_unavailable,)).transact(Take("u1"))


def test_a_lost_response_that_cannot_be_verified_raises_its_error() -> None:
    callers = create_callers(reads=(do_nothing, fail_unavailable), writes=(lose_response,))
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        callers.transact(Take("u1"))
    assert callers.transact(Read()) == callers.store.ledger
    assert "u1" in callers.store.ledger.reservations


def test_a_transition_that_crashes_fails_only_its_caller() -> None:
    callers = create_busy_callers(lambda callers: callers.start(Take("u1"), Crashing(), Take("u2")))
    assert callers.transact(Take("u0"))
    first, crash, last = callers.collect_results()
    assert (first, last) == (True, True)
    assert isinstance(crash, ZeroDivisionError)


def test_a_crash_of_the_store_leaves_no_caller_waiting() -> None:
    def crash(_: ScriptedStore) -> None:
        raise ZeroDivisionError

    callers = create_busy_callers(lambda callers: callers.start(Take("u1"), Take("u2")), writes=(crash,))
    assert callers.transact(Take("u0"))
    assert [type(each) for each in callers.collect_results()] == [ZeroDivisionError] * 2
    assert callers.transact(Take("u3"))


def test_an_interrupted_caller_leaves_no_other_waiting() -> None:
    def interrupt(_: ScriptedStore) -> None:
        callers.start(Take("u1"))
        raise KeyboardInterrupt

    callers = create_callers(writes=(interrupt,))
    with pytest.raises(KeyboardInterrupt):
        callers.transact(Take("u0"))
    assert callers.collect_results() == [True]
