"""A ledger is removed only at the version that was read, and only if nothing is reserved meanwhile."""

import pytest

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import StoreUnavailableError
from tests.state.batched_ledgers.concurrent_callers import create_busy_callers, create_callers
from tests.state.batched_ledgers.scripted_store import fail_unavailable
from tests.state.transitions import Put, Remove, Take, free_ledger


def create_reserved_ledger(gpus: int, uid: str) -> Ledger:
    """Return a ledger with the given limit and one GPU reserved for a pod."""
    step = Take(uid)(free_ledger(gpus))
    assert step.ledger is not None
    return step.ledger


def test_a_ledger_is_removed_at_the_version_that_was_read() -> None:
    callers = create_callers()
    assert callers.transact(Remove())
    assert callers.store.calls == ["read", "remove"]
    assert callers.store.stored is None


def test_a_ledger_that_others_write_meanwhile_is_read_again_and_stays() -> None:
    callers = create_callers(writes=(lambda store: store.change(create_reserved_ledger(4, "u1")),))
    assert not callers.transact(Remove())
    assert callers.store.calls == ["read", "remove", "read"]
    assert list(callers.store.ledger.reservations) == ["u1"]


def test_a_ledger_with_a_reservation_in_the_same_batch_is_not_removed() -> None:
    callers = create_busy_callers(lambda callers: callers.start(Remove(), Take("u1")))
    assert callers.transact(Put(lambda before: before or free_ledger(4))) is None
    assert callers.collect_results() == [False, True]
    assert "remove" not in callers.store.calls
    assert list(callers.store.ledger.reservations) == ["u1"]


def test_a_rejection_in_the_same_batch_does_not_prevent_the_removal() -> None:
    callers = create_busy_callers(lambda callers: callers.start(Remove(), Take("u1", 5)))
    assert callers.transact(Put(lambda before: before or free_ledger(4))) is None
    assert callers.collect_results() == [True, False]
    assert callers.store.calls == ["write", "remove"]
    assert callers.store.stored is None


def test_a_removal_that_fails_raises_its_error() -> None:
    callers = create_callers(writes=(fail_unavailable,))
    with pytest.raises(StoreUnavailableError):
        callers.transact(Remove())
    assert callers.store.stored is not None
