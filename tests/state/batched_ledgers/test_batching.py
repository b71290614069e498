"""Callers that wait for the same ledger share a write, with a minimum of reads and writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallygate.state.batched_ledgers import BatchedLedgers, CachedLedger
from tallygate.state.ports import LedgerKey, VersionedLedger
from tests.state.batched_ledgers.concurrent_callers import create_busy_callers, create_callers
from tests.state.batched_ledgers.scripted_store import KEY, ScriptedStore
from tests.state.transitions import GPU, Put, Take, free_ledger


def test_only_the_first_write_reads() -> None:
    callers = create_callers()
    for uid in ("u1", "u2", "u3"):
        assert callers.transact(Take(uid))
    assert callers.store.calls == ["read", "write", "write", "write"]
    assert callers.store.ledger.compute_charged() == {GPU: 3}


def test_callers_that_start_during_a_write_share_the_next_one() -> None:
    callers = create_busy_callers(
        lambda callers: callers.start(*(Take(f"u{each}") for each in range(1, 20))), ledger=20
    )
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True] * 19
    assert callers.store.calls == ["write", "write"]
    assert list(callers.store.ledger.reservations) == [f"u{each}" for each in range(20)]


def test_the_first_callers_of_a_shared_write_reserve() -> None:
    callers = create_busy_callers(
        lambda callers: callers.start(Take("u1", 2), Take("u2", 2), Take("u3", 1), Take("u4", 1))
    )
    assert callers.transact(Take("u0"))
    assert callers.collect_results() == [True, False, True, False]
    assert callers.store.calls == ["write", "write"]


def test_a_ledger_that_others_write_is_read_before_every_write() -> None:
    callers = create_callers(9)
    for number in range(3):
        assert callers.transact(Take(f"u{number}"))
        callers.store.change(callers.store.ledger)
    callers.store.calls.append("|")
    for number in range(3, 6):
        assert callers.transact(Take(f"u{number}"))
    assert "".join(call[0] for call in callers.store.calls) == "rwwrwrw|rwrww"


def test_many_callers_let_another_replica_write_now_and_then() -> None:
    cached = CachedLedger()
    cached.record_read(VersionedLedger(free_ledger(9), "0"))
    for number in range(20):
        cached.confirm(0.0, None)
        assert cached.may_write_without_read(2)
        cached.record_write(VersionedLedger(free_ledger(9), f"{number + 1}"))
    assert not cached.may_write_without_read(2)
    assert cached.may_write_without_read(1)
    cached.record_read(VersionedLedger(free_ledger(9), "20"))
    assert cached.may_write_without_read(2)


def create_by_other_replica(store: ScriptedStore) -> None:
    """Create the ledger as another replica."""
    assert store.put(free_ledger(3), None)


def test_a_missing_ledger_is_created_by_one_replica() -> None:
    callers = create_callers(None, writes=(create_by_other_replica,))
    callers.transact(Put(lambda found: found or free_ledger(7)))
    assert callers.store.ledger == free_ledger(3)
    assert callers.store.calls == ["read", "write", "read", "write"]


def test_the_least_recently_used_ledgers_are_dropped_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallygate.state.batched_ledgers._MAX_CACHED_LEDGERS", 2)
    store = ScriptedStore(free_ledger(9))
    ledgers = BatchedLedgers(store, lambda: 0.0)
    for uid, cap in enumerate("abacab"):
        ledgers.transact(LedgerKey(cap, ""), Take(f"u{uid}"), 1.0)
        store.calls.append(cap)
    # The store has one ledger for all, so that the cached ledger of one cap is stale after a write to another.
    assert "".join(call[0] for call in store.calls) == "rwarwbwrwarwcrwarwb"


def test_a_caller_releases_its_turn_unless_a_cached_rejection_applies() -> None:
    waiting: list[str] = []

    @contextmanager
    def wait() -> Iterator[None]:
        waiting.append("begins")
        yield
        waiting.append("ends")

    store = ScriptedStore(free_ledger(1))
    ledgers = BatchedLedgers(store, lambda: 0.0, release_turn=wait)
    assert ledgers.transact(KEY, Take("u1"), 10.0)
    assert not ledgers.transact(KEY, Take("u2"), 10.0)
    assert waiting == ["begins", "ends"] * 2
    assert not ledgers.transact(KEY, Take("u3"), 10.0)
    assert waiting == ["begins", "ends"] * 2
