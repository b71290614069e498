"""Who waits for the same ledger shares a write, and is told only what holds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.state.attempts import GPU, Look, Put, Remove, Take, room
from tests.state.batching.crowd import Crowd
from tests.state.batching.script import KEY, Happening, ScriptedStore, done, down, lost, nothing, pending, throttled
from tests.state.contract import Crashing
from webhook.state.batching import BatchedLedgers
from webhook.state.batching.desk import Desk
from webhook.state.ledger import Ledger
from webhook.state.ports import BusyError, LedgerFullError, LedgerKey, StoreUnavailableError, Versioned

Come = Callable[[Crowd], None]


def crowd(ledger: int | None = 4, reads: tuple[Happening, ...] = (), writes: tuple[Happening, ...] = ()) -> Crowd:
    """A ledger with room for so many GPUs, and what happens to it."""
    return Crowd(ScriptedStore(None if ledger is None else room(ledger), reads, writes))


def crowded(first: Come, ledger: int = 4, writes: tuple[Happening, ...] = ()) -> Crowd:
    """A ledger that is read already, and whose first write is under way while others come."""
    found = crowd(ledger, writes=(nothing, lambda _: first(found), *writes))
    assert found.ask(Put(lambda before: before or room(ledger))) is None
    found.store.calls.clear()
    return found


def taken(gpus: int, uid: str) -> Ledger:
    """A ledger with room for so many, one of which is promised to a pod."""
    step = Take(uid)(room(gpus))
    assert step.ledger is not None
    return step.ledger


def bound(gpus: int) -> Happening:
    """Let somebody else write another bound."""
    return lambda store: store.change(room(gpus))


def test_a_first_write_reads_and_every_other_only_writes() -> None:
    asked = crowd()
    for uid in ("u1", "u2", "u3"):
        assert asked.ask(Take(uid))
    assert asked.store.calls == ["read", "write", "write", "write"]
    assert asked.store.now.charged() == {GPU: 3}


def test_who_comes_while_a_write_is_under_way_shares_the_next_one() -> None:
    asked = crowded(lambda crowd: crowd.come(*(Take(f"u{each}") for each in range(1, 20))), ledger=20)
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 19
    assert asked.store.calls == ["write", "write"]
    assert list(asked.store.now.rows) == [f"u{each}" for each in range(20)]


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
    desk = Desk()
    desk.read(Versioned(room(9), "0"))
    for number in range(20):
        desk.saw(0.0, None)
        assert desk.may_write_blind(2)
        desk.wrote(Versioned(room(9), f"{number + 1}"))
    assert not desk.may_write_blind(2)
    assert desk.may_write_blind(1)
    desk.read(Versioned(room(9), "20"))
    assert desk.may_write_blind(2)


def test_a_refusal_alone_is_looked_up() -> None:
    asked = crowd()
    assert asked.ask(Take("u1", 3))
    assert not asked.ask(Take("u2", 2))
    assert asked.store.calls == ["read", "write", "read"]


def test_room_that_others_have_made_is_found_before_anybody_is_refused() -> None:
    asked = crowd(1)
    assert asked.ask(Take("u1"))
    bound(9)(asked.store)
    assert asked.ask(Take("u2", 3))
    assert asked.store.calls == ["read", "write", "read", "write"]


def test_room_that_others_have_taken_is_found_before_anybody_is_granted() -> None:
    asked = crowd(9)
    assert asked.ask(Take("u1"))
    bound(0)(asked.store)
    assert not asked.ask(Take("u2"))
    assert asked.store.calls == ["read", "write", "write", "read"]
    assert "u2" not in asked.store.now.rows


def test_what_is_sure_anyhow_needs_no_look_for_some_seconds() -> None:
    asked = crowd()
    assert asked.ask(Take("u1"))
    asked.clock.seconds = 10.0
    assert asked.ask(Look(sure=True), deadline=99.0) == asked.store.now
    assert asked.ask(Take("u2"), deadline=99.0)
    assert asked.store.calls == ["read", "write", "write"]
    asked.clock.seconds = 20.1
    assert asked.ask(Look(sure=True), deadline=99.0) == asked.store.now
    assert asked.store.calls == ["read", "write", "write", "read"]


def test_among_those_who_are_sure_one_who_is_not_is_looked_up() -> None:
    asked = crowd()
    assert asked.ask(Take("u1"))
    assert asked.ask(Look(sure=True)) == asked.store.now
    assert asked.ask(Look()) == asked.store.now
    assert asked.store.calls == ["read", "write", "read"]


def test_a_ledger_that_is_not_there_is_made_by_one() -> None:
    asked = crowd(None, writes=(bound_when_none,))
    asked.ask(Put(lambda found: found or room(7)))
    assert asked.store.now == room(3)
    assert asked.store.calls == ["read", "write", "read", "write"]


def bound_when_none(store: ScriptedStore) -> None:
    """Let somebody else make it."""
    assert store.put(room(3), None)


def test_a_lost_request_is_sent_again() -> None:
    asked = crowd(writes=(lost,))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read", "write"]
    assert asked.store.now.charged() == {GPU: 1}


def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    asked = crowd(1, writes=(done,))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read"]
    assert asked.store.now.charged() == {GPU: 1}


def test_another_attempt_of_the_same_pod_is_no_proof_of_this_one() -> None:
    def other(store: ScriptedStore) -> None:
        step = Take("u1", by="n0")(store.now)
        assert step.ledger is not None
        store.change(step.ledger)
        lost(store)

    asked = crowd(2, writes=(other,))
    assert asked.ask(Take("u1", by="n1"))
    assert asked.store.calls == ["read", "write", "read", "write"]
    assert asked.store.now.rows["u1"].by == "n1"


def test_a_request_that_lands_late_is_found_by_the_conflict() -> None:
    def land(store: ScriptedStore) -> None:
        for each in store.late:
            each()

    asked = crowd(1, writes=(pending, land))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read", "write", "read"]
    assert asked.store.now.charged() == {GPU: 1}


def test_all_whose_answer_was_lost_together_are_told() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2", 9), Take("u3")), writes=(done,))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True, False, True]
    assert asked.store.calls == ["write", "write", "read"]
    assert asked.store.now.charged() == {GPU: 3}


@pytest.mark.parametrize(("fault", "says"), [(down, "connection refused"), (throttled, "too many requests")])
def test_a_store_out_of_reach_is_told_to_all_who_wait(fault: Happening, says: str) -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(fault,))
    assert asked.ask(Take("u0"))
    assert [str(each) for each in asked.outcomes()] == [says] * 2
    assert asked.ask(Take("u3"))
    assert asked.store.calls == ["write", "write", "read", "write"]


def test_a_read_that_fails_is_told() -> None:
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        crowd(reads=(down,)).ask(Take("u1"))


def test_a_lost_answer_that_cannot_be_looked_up_is_told() -> None:
    asked = crowd(reads=(nothing, down), writes=(done,))
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        asked.ask(Take("u1"))
    assert asked.ask(Look()) == asked.store.now
    assert "u1" in asked.store.now.rows


def test_a_fault_of_one_attempt_is_told_to_its_caller_only() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Crashing(), Take("u2")))
    assert asked.ask(Take("u0"))
    first, crash, last = asked.outcomes()
    assert (first, last) == (True, True)
    assert isinstance(crash, ZeroDivisionError)


def test_a_fault_of_the_store_leaves_nobody_waiting() -> None:
    def crash(_: ScriptedStore) -> None:
        raise ZeroDivisionError

    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(crash,))
    assert asked.ask(Take("u0"))
    assert [type(each) for each in asked.outcomes()] == [ZeroDivisionError] * 2
    assert asked.ask(Take("u3"))


def test_an_interrupted_server_leaves_nobody_waiting() -> None:
    def interrupt(_: ScriptedStore) -> None:
        asked.come(Take("u1"))
        raise KeyboardInterrupt

    asked = crowd(writes=(interrupt,))
    with pytest.raises(KeyboardInterrupt):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True]


def test_a_caller_whose_deadline_passes_goes_and_the_next_one_serves() -> None:
    def slow(store: ScriptedStore) -> None:
        asked.come(Take("u1"), Take("u2"), deadline=100.0)
        asked.clock.seconds = 50.0
        store.change(room(4))  # so that the first must try again, for which there is no time

    asked = crowd(writes=(slow,))
    with pytest.raises(BusyError, match="others were in the way until the deadline"):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True, True]
    assert list(asked.store.now.rows) == ["u1", "u2"]


def test_of_those_who_wait_the_one_with_the_most_time_serves_next() -> None:
    def slow(store: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=51.0)
        asked.come(Take("u2"), deadline=53.0)
        asked.come(Take("u3"), deadline=52.0)
        asked.clock.seconds = 50.0
        store.change(room(4))

    asked = crowd(writes=(slow,))
    with pytest.raises(BusyError):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 3
    assert asked.store.patiences == [5.0, 5.0, 3.0, 3.0]


def test_a_call_that_takes_all_the_time_of_who_serves_is_no_verdict_for_the_others() -> None:
    def hang(_: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=100.0)
        asked.clock.seconds = 50.0
        raise StoreUnavailableError("timed out")

    asked = crowd(reads=(hang,))
    with pytest.raises(BusyError):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True]


def test_no_call_takes_longer_than_who_serves_has_nor_than_five_seconds() -> None:
    asked = crowd()
    asked.ask(Take("u1"), deadline=2.0)
    asked.ask(Take("u2"), deadline=float("inf"))
    assert asked.store.patiences == [2.0, 2.0, 5.0]


def test_after_the_deadline_nothing_is_tried() -> None:
    asked = crowd()
    asked.clock.seconds = 20.0
    with pytest.raises(BusyError):
        asked.ask(Take("u1"))
    assert asked.store.calls == []


def test_who_waits_in_vain_goes_at_the_deadline() -> None:
    waited: list[BaseException | None] = []

    def hold(_: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=0.0)
        waited.append(asked.came[0].exception(30.0))

    asked = crowd(writes=(hold,))
    assert asked.ask(Take("u0"))
    assert isinstance(waited[0], BusyError)
    assert list(asked.store.now.rows) == ["u0"]


def full(_: ScriptedStore) -> None:
    """Be full."""
    raise LedgerFullError("too large")


def test_where_all_together_are_too_large_each_is_tried_alone() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2"), Take("u3")), writes=(full, nothing, full))
    assert asked.ask(Take("u0"))
    one, two, three = asked.outcomes()
    assert (one, three) == (True, True)
    assert isinstance(two, LedgerFullError)
    assert list(asked.store.now.rows) == ["u0", "u1", "u3"]


def test_who_is_decided_already_is_not_tried_alone() -> None:
    def lost_while_another_comes(store: ScriptedStore) -> None:
        asked.come(Take("u3"))
        done(store)

    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(lost_while_another_comes, full))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 3
    assert asked.store.calls == ["write", "write", "read", "write", "read", "write"]


def test_a_refusal_is_remembered_a_second_for_those_who_ask_for_as_much_or_more() -> None:
    asked = crowd(2)
    assert not asked.ask(Take("u1", 4))
    asked.clock.seconds = 1.0
    assert not asked.ask(Take("u2", 4))
    assert not asked.ask(Take("u3", 5))
    assert asked.store.calls == ["read"]
    asked.clock.seconds = 1.1
    assert not asked.ask(Take("u4", 4))
    assert asked.store.calls == ["read", "read"]


def test_who_asks_for_less_than_was_refused_is_looked_up() -> None:
    asked = crowd(2)
    assert not asked.ask(Take("u1", 4))
    assert not asked.ask(Take("u2", 3))
    assert asked.store.calls == ["read", "read"]


def test_a_remembered_refusal_yields_to_what_is_known_since() -> None:
    asked = crowd(2)
    assert not asked.ask(Take("u1", 4))
    asked.ask(Put(lambda _: room(4)))
    assert asked.ask(Take("u2", 4))


def test_who_is_refused_in_a_shared_write_is_remembered_too() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1", 2), Take("u2", 3)))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True, False]
    assert not asked.ask(Take("u3", 3))
    assert asked.store.calls == ["write", "write"]


def test_of_very_many_ledgers_those_unused_the_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.state.batching.ledgers._MOST_DESKS", 2)
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
    ledgers = BatchedLedgers(store, lambda: 0.0, waiting=wait)
    assert ledgers.transact(KEY, Take("u1"), 10.0)
    assert not ledgers.transact(KEY, Take("u2"), 10.0)
    assert waiting == ["begins", "ends"] * 2
    assert not ledgers.transact(KEY, Take("u3"), 10.0)
    assert waiting == ["begins", "ends"] * 2


def test_a_ledger_is_taken_away_as_it_was_read() -> None:
    asked = crowd()
    assert asked.ask(Remove())
    assert asked.store.calls == ["read", "remove"]
    assert asked.store.stored is None


def test_a_ledger_that_others_write_meanwhile_is_looked_at_again_and_kept() -> None:
    asked = crowd(writes=(lambda store: store.change(taken(4, "u1")),))
    assert not asked.ask(Remove())
    assert asked.store.calls == ["read", "remove", "read"]
    assert list(asked.store.now.rows) == ["u1"]


def test_a_ledger_into_which_somebody_puts_something_together_with_who_takes_it_away_is_kept() -> None:
    asked = crowded(lambda crowd: crowd.come(Remove(), Take("u1")))
    assert asked.ask(Put(lambda before: before or room(4))) is None
    assert asked.outcomes() == [False, True]
    assert "remove" not in asked.store.calls
    assert list(asked.store.now.rows) == ["u1"]


def test_what_is_told_beside_a_removal_was_so_until_then() -> None:
    asked = crowded(lambda crowd: crowd.come(Remove(), Take("u1", 5)))
    assert asked.ask(Put(lambda before: before or room(4))) is None
    assert asked.outcomes() == [True, False]
    assert asked.store.calls == ["write", "remove"]
    assert asked.store.stored is None


def test_whose_removal_is_not_answered_is_told_so() -> None:
    asked = crowd(writes=(down,))
    with pytest.raises(StoreUnavailableError):
        asked.ask(Remove())
    assert asked.store.stored is not None
