"""Promises become tally, or come to nothing: the gate and its keeper over a cluster that is seen late."""

import pytest

from tests.gate.scene import CAP, SHARED
from tests.gate.world import BOUND, World, opened
from tests.state.informers.pods import pod as stored_pod
from webhook.accounting.amounts import Amounts
from webhook.state.ports import LedgerKey


def test_a_promise_becomes_tally_when_its_pod_is_seen() -> None:
    world = opened()
    assert world.code("u1", 3) == 200
    world.store("u1", 3)
    world.keep()
    assert world.sums() == (0, 3)
    world.see("u1")
    world.keep()
    assert world.sums() == (3, 0)
    assert not world.kept().reservations


def test_room_comes_back_when_a_pod_ends_without_waiting_for_the_keeper() -> None:
    world = opened()
    assert world.code("u1", 4) == 200
    world.store("u1", 4)
    world.see("u1")
    assert world.code("u2", 1) == 403
    world.end("u1")
    assert world.code("u2", 4) == 200
    assert world.sums() == (0, 4)


def test_a_promise_whose_pod_never_came_is_kept_for_the_bound_and_then_dropped() -> None:
    world = opened()
    assert world.code("u1", 4) == 200
    world.keep()
    world.keep(BOUND - 1)
    assert world.code("u2") == 403
    world.keep(1)
    world.keep()
    assert world.code("u2", 4) == 200


def test_a_write_that_was_sent_before_the_bound_had_passed_makes_no_reservation_expire() -> None:
    """What is sent then may commit before a creation that waits inside etcd, however late the answer comes."""
    world = opened()
    assert world.code("u1", 3) == 200
    world.keep()
    world.store("u2", 1)
    world.see("u2")
    world.now += BOUND - 2
    world.keep_slowly(4)
    assert world.sums() == (1, 3)
    world.keep()
    assert world.sums() == (1, 3)
    world.keep()
    assert world.sums() == (1, 0)


def test_a_visit_returns_how_many_reservations_expired() -> None:
    world = opened(CAP.replace("4", "100"))
    (counted,) = world.caps.list_caps()
    key = LedgerKey(counted.key, "team-a")
    for uid in ("u1", "u2"):
        assert world.code(uid) == 200
    world.keep()
    assert world.code("u3") == 200
    world.keep(BOUND)
    assert world.keeper.reconcile(key, counted).expired == 2
    assert list(world.kept().reservations) == ["u3"]


def test_a_pod_that_is_stored_late_and_not_seen_is_not_forgotten() -> None:
    world = opened()
    assert world.code("u1", 4) == 200
    world.keep()
    world.store("u1", 4)
    for _ in range(5):
        world.keep(BOUND)
    assert world.sums() == (0, 4)
    assert world.code("u2") == 403
    world.relist()
    world.keep()
    assert world.sums() == (4, 0)


@pytest.mark.parametrize("text", [CAP, SHARED], ids=["in a namespace", "in a shared ledger"])
def test_a_reservation_of_a_change_that_never_came_expires_though_its_pod_is_there(text: str) -> None:
    world = opened(text)
    world.store("u1", 1)
    world.see("u1")
    world.keep()
    assert world.code("u1", 4, oldObject=stored_pod("u1", 0, "1", "team-a")) == 200
    assert world.sums() == (1, 3)
    world.keep()
    world.keep(BOUND - 1)
    assert world.code("u2") == 403
    world.keep(1)
    world.keep()
    assert world.sums() == (1, 0)
    assert world.code("u2", 3) == 200


def test_a_deletion_that_was_missed_frees_its_room_after_the_list() -> None:
    world = opened()
    assert world.code("u1", 4) == 200
    world.store("u1", 4)
    world.see("u1")
    world.keep()
    del world.truth["u1"]
    world.relist()
    world.keep()
    assert world.sums() == (0, 0)


def test_a_visit_that_finds_nothing_new_writes_nothing() -> None:
    world = opened()
    before = world.kept()
    world.relist()
    world.keep(1)
    assert world.kept() is before


def test_who_is_refused_by_a_view_that_has_been_silent_for_long_has_it_asked_anew() -> None:
    world = opened()
    assert world.code("u1", 4) == 200
    world.seen_at = world.now
    world.now += 19
    assert world.code("u2") == 403
    assert world.hurries == 0
    world.now += 2
    assert (world.code("u3"), world.hurries) == (403, 1)
    assert (world.code("u4"), world.hurries) == (403, 1)


def test_lowering_a_cap_admits_nothing_more_and_removes_nothing() -> None:
    world = opened()
    assert world.code("u1", 3) == 200
    world.store("u1", 3)
    world.see("u1")
    (counted,) = world.caps.list_caps()
    key = LedgerKey(counted.key, "team-a")
    lowered = type(counted)(counted.definition, counted.key, Amounts({"nvidia.com/gpu": 2}), counted.soft)
    world.keeper.reconcile(key, lowered)
    assert world.kept().hard == {"nvidia.com/gpu": 2}
    assert world.sums() == (3, 0)
    assert world.code("u2") == 403


def test_another_limit_is_written_though_nothing_else_has_changed() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    lowered = type(counted)(counted.definition, counted.key, Amounts({"nvidia.com/gpu": 2}), counted.soft)
    world.keeper.reconcile(LedgerKey(counted.key, "team-a"), lowered)
    assert world.kept().hard == {"nvidia.com/gpu": 2}


def test_a_name_that_a_cap_counts_anew_is_written_though_no_pod_holds_any() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    more = type(counted)(counted.definition, counted.key, counted.hard, Amounts({"pods": 3}))
    world.keeper.reconcile(LedgerKey(counted.key, "team-a"), more)
    assert world.kept().resources == {"nvidia.com/gpu", "pods"}


def test_a_ledger_is_counted_on_where_the_cap_counts_a_name_less() -> None:
    """A name that is only watched: the limits stay as they are."""
    world = opened(CAP + "  soft: {pods: 3}\n")
    assert world.kept().resources == {"nvidia.com/gpu", "pods"}
    (counted,) = world.caps.list_caps()
    fewer = type(counted)(counted.definition, counted.key, counted.hard, Amounts())
    world.store("u1", 3)
    world.see("u1")
    world.keeper.reconcile(LedgerKey(counted.key, "team-a"), fewer)
    assert world.kept().resources == {"nvidia.com/gpu"}
    assert world.kept().used == {"nvidia.com/gpu": 3}


def test_a_view_is_no_newer_than_it_was_when_it_was_taken() -> None:
    """What comes to be seen between the look at the pods and the question how old that look is, is not counted."""
    world = World()
    for _ in range(2):
        world.keep(BOUND)
    world.store("late", 4)

    def current_at() -> float:
        world.see("late")
        return world.now

    world.sight.synced_at = current_at
    world.keep()
    assert world.sums() == (4, 0)
    assert world.code("u1") == 403


def test_only_ledgers_with_promises_are_visited_again_unasked() -> None:
    world = opened()
    assert world.keeper.list_pending() == ()
    assert world.code("u1", 1) == 200
    world.keep()
    assert len(world.keeper.list_pending()) == 1
    world.store("u1", 1)
    world.see("u1")
    world.keep()
    assert world.keeper.list_pending() == ()
