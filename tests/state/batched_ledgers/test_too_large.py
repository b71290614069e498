"""A batch that does not fit into one ledger is tried one by one."""

from tallygate.state.ports import LedgerFullError
from tests.state.batched_ledgers.concurrent_callers import create_busy_callers
from tests.state.batched_ledgers.scripted_store import ScriptedStore, do_nothing, lose_response
from tests.state.transitions import Take


def fail_full(_: ScriptedStore) -> None:
    """Fail because the ledger is too large."""
    raise LedgerFullError("too large")


def test_a_batch_that_is_too_large_is_tried_one_by_one() -> None:
    callers = create_busy_callers(
        lambda callers: callers.start(Take("u1"), Take("u2"), Take("u3")), writes=(fail_full, do_nothing, fail_full)
    )
    assert callers.transact(Take("u0"))
    one, two, three = callers.collect_results()
    assert (one, three) == (True, True)
    assert isinstance(two, LedgerFullError)
    assert list(callers.store.ledger.reservations) == ["u0", "u1", "u3"]


def test_a_decided_caller_is_not_tried_alone() -> None:
    def lose_response_and_start_another(store: ScriptedStore) -> None:
        callers.start(Take("u3"))
        lose_response(store)

    callers = create_busy_callers(
        lambda callers: callers.start(Take("u1"), Take("u2")), writes=(lose_response_and_start_another, fail_full)
    )
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True] * 3
    assert callers.store.calls == ["write", "write", "read", "write", "read", "write"]
