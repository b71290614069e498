"""Live reads of a ledger before an outcome that may be stale, and the cache of rejections."""

from tests.state.batched_ledgers.concurrent_callers import create_busy_callers, create_callers
from tests.state.batched_ledgers.scripted_store import Effect
from tests.state.transitions import Put, Read, Take, free_ledger


def set_limit(gpus: int) -> Effect:
    """Return an effect that writes another hard limit as another replica."""
    return lambda store: store.change(free_ledger(gpus))


def test_a_rejection_alone_is_verified_by_a_read() -> None:
    callers = create_callers()
    assert callers.transact(Take("u1", 3))
    assert not callers.transact(Take("u2", 2))
    assert callers.store.calls == ["read", "write", "read"]


def test_an_amount_that_others_freed_is_found_before_a_rejection() -> None:
    callers = create_callers(1)
    assert callers.transact(Take("u1"))
    set_limit(9)(callers.store)
    assert callers.transact(Take("u2", 3))
    assert callers.store.calls == ["read", "write", "read", "write"]


def test_an_amount_that_others_reserved_is_found_before_a_reservation() -> None:
    callers = create_callers(9)
    assert callers.transact(Take("u1"))
    set_limit(0)(callers.store)
    assert not callers.transact(Take("u2"))
    assert callers.store.calls == ["read", "write", "write", "read"]
    assert "u2" not in callers.store.ledger.reservations


def test_a_transition_that_accepts_the_cache_reads_nothing_for_some_seconds() -> None:
    callers = create_callers()
    assert callers.transact(Take("u1"))
    callers.clock.seconds = 10.0
    assert callers.transact(Read(accepts_cached=True), deadline=99.0) == callers.store.ledger
    assert callers.transact(Take("u2"), deadline=99.0)
    assert callers.store.calls == ["read", "write", "write"]
    callers.clock.seconds = 20.1
    assert callers.transact(Read(accepts_cached=True), deadline=99.0) == callers.store.ledger
    assert callers.store.calls == ["read", "write", "write", "read"]


def test_a_transition_that_rejects_the_cache_is_read() -> None:
    callers = create_callers()
    assert callers.transact(Take("u1"))
    assert callers.transact(Read(accepts_cached=True)) == callers.store.ledger
    assert callers.transact(Read()) == callers.store.ledger
    assert callers.store.calls == ["read", "write", "read"]


def test_a_rejection_is_cached_for_a_second_for_equal_and_larger_requests() -> None:
    callers = create_callers(2)
    assert not callers.transact(Take("u1", 4))
    callers.clock.seconds = 1.0
    assert not callers.transact(Take("u2", 4))
    assert not callers.transact(Take("u3", 5))
    assert callers.store.calls == ["read"]
    callers.clock.seconds = 1.1
    assert not callers.transact(Take("u4", 4))
    assert callers.store.calls == ["read", "read"]


def test_a_smaller_request_than_the_rejected_one_is_read() -> None:
    callers = create_callers(2)
    assert not callers.transact(Take("u1", 4))
    assert not callers.transact(Take("u2", 3))
    assert callers.store.calls == ["read", "read"]


def test_a_cached_rejection_is_dropped_after_a_write() -> None:
    callers = create_callers(2)
    assert not callers.transact(Take("u1", 4))
    callers.transact(Put(lambda _: free_ledger(4)))
    assert callers.transact(Take("u2", 4))


def test_a_rejection_in_a_shared_write_is_cached_too() -> None:
    callers = create_busy_callers(lambda callers: callers.start(Take("u1", 2), Take("u2", 3)))
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True, False]
    assert not callers.transact(Take("u3", 3))
    assert callers.store.calls == ["write", "write"]
