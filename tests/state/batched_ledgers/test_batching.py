"""Who waits for the same ledger shares a write, and as little is read and written as will do."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.state.attempts import GPU, Put, Take, room
from tests.state.batched_ledgers.crowd import crowd, crowded
from tests.state.batched_ledgers.script import KEY, ScriptedStore
from webhook.state.batched_ledgers import BatchedLedgers, CachedLedger
from webhook.state.ports import LedgerKey, VersionedLedger


def test_a_first_write_reads_and_every_other_only_writes() -> None:
    asked = crowd()
    for uid in ("u1", "u2", "u3"):
        assert asked.ask(Take(uid))
    assert asked.store.calls == ["read", "write", "write", "write"]
    assert asked.store.now.compute_charged() == {GPU: 3}


def test_who_comes_while_a_write_is_under_way_shares_the_next_one() -> None:
    asked = crowded(lambda crowd: crowd.come(*(Take(f"u{each}") for each in range(1, 20))), ledger=20)
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 19
    assert asked.store.calls == ["write", "write"]
    assert list(asked.store.now.reservations) == [f"u{each}" for each in range(20)]


def test_of_those_who_share_a_write_the_first_to_come_get_the_room() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1", 2), Take("u2", 2), Take("u3", 1), Take("u4", 1)))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True, False, True, False]
    assert asked.store.calls == ["write", "write"]


def test_where_others_have_written_it_is_read_before_it_is_written_until_they_no_longer_do() -> None:
    asked = crowd(9)
    for number in range(3):
        assert asked.ask(Take(f"u{number}"))
        asked.store.change(asked.store.now)
    asked.store.calls.append("|")
    for number in range(3, 6):
        assert asked.ask(Take(f"u{number}"))
    assert "".join(call[0] for call in asked.store.calls) == "rwwrwrw|rwrww"


def test_a_crowd_leaves_room_for_another_replica_now_and_then() -> None:
    desk = CachedLedger()
    desk.record_read(VersionedLedger(room(9), "0"))
    for number in range(20):
        desk.confirm(0.0, None)
        assert desk.may_write_without_read(2)
        desk.record_write(VersionedLedger(room(9), f"{number + 1}"))
    assert not desk.may_write_without_read(2)
    assert desk.may_write_without_read(1)
    desk.record_read(VersionedLedger(room(9), "20"))
    assert desk.may_write_without_read(2)


def bound_when_none(store: ScriptedStore) -> None:
    """Let somebody else make it."""
    assert store.put(room(3), None)


def test_a_ledger_that_is_not_there_is_made_by_one() -> None:
    asked = crowd(None, writes=(bound_when_none,))
    asked.ask(Put(lambda found: found or room(7)))
    assert asked.store.now == room(3)
    assert asked.store.calls == ["read", "write", "read", "write"]


def test_of_very_many_ledgers_those_unused_the_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.state.batched_ledgers._MAX_CACHED_LEDGERS", 2)
    store = ScriptedStore(room(9))
    ledgers = BatchedLedgers(store, lambda: 0.0)
    for uid, cap in enumerate("abacab"):
        ledgers.transact(LedgerKey(cap, ""), Take(f"u{uid}"), 1.0)
        store.calls.append(cap)
    # The store has one ledger for all, so that what is known of one cap is wrong after a write to another.
    assert "".join(call[0] for call in store.calls) == "rwarwbwrwarwcrwarwb"


def test_whoever_waits_says_so_and_whoever_is_told_what_was_refused_a_moment_ago_does_not() -> None:
    waiting: list[str] = []

    @contextmanager
    def wait() -> Iterator[None]:
        waiting.append("begins")
        yield
        waiting.append("ends")

    store = ScriptedStore(room(1))
    ledgers = BatchedLedgers(store, lambda: 0.0, release_turn=wait)
    assert ledgers.transact(KEY, Take("u1"), 10.0)
    assert not ledgers.transact(KEY, Take("u2"), 10.0)
    assert waiting == ["begins", "ends"] * 2
    assert not ledgers.transact(KEY, Take("u3"), 10.0)
    assert waiting == ["begins", "ends"] * 2
