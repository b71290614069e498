"""Promises become tally, or come to nothing: the gate and its keeper over a cluster that is seen late."""

from dataclasses import replace

import pytest

from tests.admission.case import policies
from tests.gate.scene import CAP, pod, response
from tests.gate.world import BOUND, World
from tests.state.attempts import Look, Put
from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Ledger
from webhook.state.ports import LedgerKey, StoreUnavailableError
from webhook.state.watch.events import Bookmark

SHARED = CAP.replace("hard:", "shared: true\n  hard:")
BY_LABEL = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")


def opened(text: str = CAP) -> World:
    """A world whose ledgers promise."""
    world = World(text)
    world.open()
    return world


def test_after_a_start_nothing_is_promised_until_what_was_in_flight_is_counted() -> None:
    world = World()
    world.store("old", 3)
    assert world.code("u1") == 429
    world.keep()
    assert world.code("u1") == 429
    world.see("old")
    world.keep(BOUND - 1)
    assert world.code("u1") == 429
    world.keep(1)
    world.keep()
    assert world.code("u1", 2) == 403
    assert world.code("u1", 1) == 200
    assert world.sums() == (3, 1)


def test_who_is_told_to_come_again_hears_of_which_cap_and_why() -> None:
    answer = World().admit(pod("u1", 1))
    assert response(answer)["status"]["message"] == (
        "cap gpus: the ledger was made anew, and what is in flight is not known yet; "
        "nothing was decided: try again in 1 s"
    )


def test_a_view_that_is_too_old_to_open_a_ledger_is_asked_for_anew_now_and_then() -> None:
    world = World()
    world.keep()
    world.seen_at = world.now
    world.keep(BOUND)
    assert world.hurries == 1
    world.keep(1)
    assert world.hurries == 1
    world.keep(5)
    assert world.hurries == 2
    assert world.code("u1") == 429
    world.seen_at = world.now
    world.keep(1)
    assert world.code("u1") == 200


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


def test_a_namespace_that_is_new_need_not_wait() -> None:
    world = World()
    world.labelled("team-new")
    assert world.code("u1", 4, "team-new") == 200
    assert world.code("u2", 1, "team-new") == 403
    assert world.code("u1") == 429


def test_a_namespace_that_is_not_known_yet_gets_no_ledger_that_would_be_taken_for_a_lost_one() -> None:
    world = World()
    assert world.code("u1", 1, "team-new") == 429
    world.labelled("team-new")
    assert world.code("u1", 1, "team-new") == 200


def test_a_new_namespace_gets_its_ledger_before_anybody_asks() -> None:
    world = World()
    world.labelled("team-new")
    world.keep()
    assert not world.kept("team-new").converging
    assert world.kept("team-a").converging


def test_a_ledger_that_a_new_namespace_has_lost_again_is_not_taken_for_its_first() -> None:
    """Somebody deleted it by hand: what it had promised is not known."""
    world = World()
    world.labelled("team-new")
    (counted,) = world.caps.all()
    key = LedgerKey(counted.key, "team-new")
    assert world.sight.is_first(key)
    assert not world.sight.is_first(LedgerKey(counted.key, "team-a"))
    world.keep()
    assert not world.sight.is_first(key)
    world.lose(key)
    assert world.code("u1", 1, "team-new") == 429
    assert world.kept("team-new").converging


def test_a_promise_becomes_tally_when_its_pod_is_seen() -> None:
    world = opened()
    assert world.code("u1", 3) == 200
    world.store("u1", 3)
    world.keep()
    assert world.sums() == (0, 3)
    world.see("u1")
    world.keep()
    assert world.sums() == (3, 0)
    assert not world.kept().rows


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


def test_a_shared_cap_counts_the_pods_of_all_its_namespaces() -> None:
    world = World(SHARED, namespaces=("team-a", "team-b", "other"))
    for uid, namespace in (("u1", "team-a"), ("u2", "team-b"), ("u3", "other")):
        world.store(uid, 1, namespace)
        world.see(uid)
    world.open()
    assert world.sums() == (2, 0)
    assert world.code("u4", 2, "team-b") == 200
    assert world.code("u5", 1, "team-a") == 403


def test_a_namespace_that_enters_a_shared_cap_brings_its_pods() -> None:
    world = World(BY_LABEL.replace("hard:", "shared: true\n  hard:"))
    world.labelled("team-a", gpu="yes")
    world.labelled("team-b")
    world.store("u1", 3, "team-b")
    world.see("u1")
    world.open()
    assert world.sums() == (0, 0)
    world.labelled("team-b", gpu="yes")
    assert world.code("u2", 2) == 403
    world.keep()
    assert world.sums() == (3, 0)
    world.labelled("team-b")
    assert world.code("u2", 2) == 200


def test_a_namespace_that_leaves_a_cap_and_comes_back_brings_what_it_took_in_meanwhile() -> None:
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    world.labelled("team-a")
    world.store("u1", 4)
    world.see("u1")
    world.labelled("team-a", gpu="yes")
    assert world.code("u2", 1) == 403
    assert world.sums() == (0, 0)
    world.end("u1")
    assert world.code("u2", 4) == 200
    world.labelled("team-a", gpu="yes", other="label")
    assert world.code("u3", 1) == 403


def test_a_ledger_whose_namespace_has_left_is_told_so() -> None:
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    before = world.kept().members
    world.labelled("team-a")
    world.keep()
    assert world.kept().members != before
    assert list(world.keeper.keys(["team-a"])) == []


def test_replicas_that_differ_by_bookmarks_only_do_not_send_each_other_away() -> None:
    """What is written says no more of namespaces than that nothing has changed since."""
    world = opened()
    world.namespaces.apply(Bookmark(world.at + 500))
    assert world.code("u1") == 200
    world.keep()
    assert world.kept().ns_as_of <= world.at
    (counted,) = world.caps.all()
    key = LedgerKey(counted.key, "team-a")
    world.ledgers.transact(key, Put(lambda found: replace(found or Ledger(counted.hard), ns_as_of=world.at + 400)), 0.0)
    assert world.code("u2") == 200
    world.keep()
    assert world.kept().ns_as_of == world.at + 400
    world.ledgers.transact(key, Put(lambda found: replace(found or Ledger(counted.hard), ns_as_of=world.at + 600)), 0.0)
    assert world.code("u3") == 200
    assert world.hurries == 0


def test_a_replica_that_knows_other_and_older_namespaces_looks_again_in_a_hurry() -> None:
    world = opened()
    (counted,) = world.caps.all()
    put = Put(lambda found: replace(found or Ledger(counted.hard), ns_as_of=world.at + 600, members="others"))
    world.ledgers.transact(LedgerKey(counted.key, "team-a"), put, 0.0)
    assert world.code("u1") == 429
    assert world.hurries == 1


def test_lowering_a_cap_admits_nothing_more_and_removes_nothing() -> None:
    world = opened()
    assert world.code("u1", 3) == 200
    world.store("u1", 3)
    world.see("u1")
    (counted,) = world.caps.all()
    key = LedgerKey(counted.key, "team-a")
    lowered = type(counted)(counted.cap, counted.key, Amounts({"nvidia.com/gpu": 2}), counted.soft)
    world.keeper.visit(key, lowered)
    assert world.kept().hard == {"nvidia.com/gpu": 2}
    assert world.sums() == (3, 0)
    assert world.code("u2") == 403


def test_a_view_is_no_newer_than_it_was_when_it_was_taken() -> None:
    """What comes to be seen between the look at the pods and the question how old that look is, is not counted."""
    world = World()
    for _ in range(2):
        world.keep(BOUND)
    world.store("late", 4)

    def current_at() -> float:
        world.see("late")
        return world.now

    world.sight.current_at = current_at
    world.keep()
    assert world.sums() == (4, 0)
    assert world.code("u1") == 403


def test_a_name_that_a_cap_counts_anew_counts_the_pods_that_are_there() -> None:
    world = opened()
    world.store("u1", 3)
    world.see("u1")
    (counted,) = world.caps.all()
    key = LedgerKey(counted.key, "team-a")
    world.ledgers.transact(key, Put(lambda _: Ledger(counted.hard)), 0.0)
    assert world.code("u2", 2) == 403
    assert world.code("u3", 1) == 200
    assert world.kept().counts == {"nvidia.com/gpu"}


def test_a_cap_that_was_taken_out_and_put_back_counts_who_came_in_meanwhile_before_it_promises() -> None:
    """Its ledger is as it was left; the keeper has not been there yet, and the watch is behind."""
    world = opened()
    assert world.code("u1", 1) == 200
    world.store("u1", 1)
    world.see("u1")
    world.keep()
    with_it = world.policies
    world.policies = policies("")
    assert world.code("u2", 3) == 200
    world.store("u2", 3)
    world.seen_at = world.now
    world.now += 1
    world.policies = with_it
    assert world.code("u3", 1) == 429
    assert world.hurries == 1
    world.see("u2")
    world.seen_at = world.now
    assert world.code("u3", 1) == 403
    assert world.kept().as_of < world.at, "nobody wrote the ledger meanwhile"


def test_a_replica_that_starts_counts_anew_what_was_counted_before_it_saw_anything() -> None:
    """Who has it from a policy that is new with its process cannot know that the cap was in force before."""
    world = opened()
    (counted,) = world.caps.all()
    world.store("u1", 4)
    world.see("u1")
    before = replace(world.kept(), tally=Amounts(), as_of=1)
    world.ledgers.transact(LedgerKey(counted.key, "team-a"), Put(lambda _: before), 0.0)
    assert world.code("u2", 1) == 403


def test_only_ledgers_with_promises_are_visited_again_unasked() -> None:
    world = opened()
    assert world.keeper.unsettled() == ()
    assert world.code("u1", 1) == 200
    world.keep()
    assert len(world.keeper.unsettled()) == 1
    world.store("u1", 1)
    world.see("u1")
    world.keep()
    assert world.keeper.unsettled() == ()


def busy() -> World:
    """A ledger with a promise that could be counted, and others that came since the keeper was there."""
    world = opened(CAP.replace("4", "100"))
    promised_and_stored(world, "u1")
    world.keep()
    world.see("u1")
    promised_and_stored(world, "u2")
    return world


def promised_and_stored(world: World, uid: str) -> None:
    """A pod is promised room, and stored; nobody has seen it yet."""
    assert world.code(uid) == 200
    world.store(uid)


def test_a_ledger_that_others_write_is_not_counted_by_the_keeper_too() -> None:
    world = busy()
    world.keep()
    assert world.sums() == (0, 2)


def test_a_ledger_is_counted_as_soon_as_nobody_has_written_it_since_the_last_visit() -> None:
    world = busy()
    world.keep()
    world.keep(0.2)
    assert world.sums() == (1, 1)


def test_a_ledger_that_others_keep_writing_is_counted_after_some_seconds() -> None:
    world = busy()
    for number in range(4):
        world.keep(1)
        assert world.sums()[0] == 0
        assert world.code(f"more-{number}") == 200
    world.keep(1)
    assert world.sums()[0] == 1


def test_a_deletion_is_counted_at_once() -> None:
    world = opened()
    promised_and_stored(world, "u1")
    world.see("u1")
    promised_and_stored(world, "u2")
    world.keep()
    world.end("u1")
    world.keep()
    assert world.sums() == (0, 1)


def test_a_write_that_promises_carries_a_recount_when_promises_have_become_many() -> None:
    world = opened(CAP.replace("4", "100"))
    for number in range(8):
        promised_and_stored(world, f"u{number}")
    assert world.code("late") == 200
    assert world.sums() == (0, 9)
    for number in range(6):
        world.see(f"u{number}")
    assert world.code("last") == 200
    assert world.sums() == (6, 4)


def test_a_dry_run_and_a_look_carry_nothing() -> None:
    world = opened(CAP.replace("4", "100"))
    for number in range(9):
        promised_and_stored(world, f"u{number}")
        world.see(f"u{number}")
    before = world.kept()
    assert world.code("dry", dryRun=True) == 200
    assert world.kept() == before


def test_who_does_not_lead_leaves_ledgers_as_they_are() -> None:
    world = opened()
    promised_and_stored(world, "u1")
    world.see("u1")
    world.role.is_leader = False
    for _ in range(5):
        world.keep(BOUND / 5)
    assert world.sums() == (0, 1)
    world.role.is_leader = True
    world.keep()
    assert world.sums() == (1, 0)


def test_who_did_not_lead_has_remembered_how_old_promises_are() -> None:
    world = opened()
    world.role.is_leader = False
    assert world.code("lost") == 200
    world.keep()
    world.keep(BOUND + 1)
    world.role.is_leader = True
    world.keep()
    assert world.sums() == (0, 1)
    world.keep(1)
    assert world.sums() == (0, 0)


def test_a_promise_that_who_leads_does_not_know_of_is_dropped_by_who_does() -> None:
    """Its pod never came, so that nothing has changed that would send the leader there."""
    world = opened()
    world.role.is_leader = False
    assert world.code("lost") == 200
    world.keep()
    world.keep(BOUND + 5)
    assert world.sums() == (0, 1)
    world.keep(1)
    world.keep(1)
    assert world.sums() == (0, 0)


def test_who_does_not_lead_makes_no_ledger() -> None:
    world = World()
    world.role.is_leader = False
    world.keep()
    assert world.ledgers.transact(world.key(), Look(), 10.0) is None


def test_a_ledger_that_promises_nothing_is_opened_by_whoever_sees_it() -> None:
    world = World()
    assert world.code("u1") == 429
    world.role.is_leader = False
    world.open()
    assert world.code("u1") == 200


def test_a_cap_that_not_all_replicas_have_promises_nothing() -> None:
    world = World()
    world.role.since = None
    for _ in range(5):
        world.keep(BOUND)
    assert world.code("u1") == 429
    world.role.since = world.now
    world.keep(BOUND - 1)
    assert world.code("u1") == 429
    world.keep(2)
    assert world.code("u1") == 200


def test_the_ledger_of_a_namespace_that_is_gone_goes_when_it_is_worth_nothing() -> None:
    world = opened()
    world.store("old", 3)
    world.see("old")
    world.keep()
    world.end("old")
    assert world.sums() == (3, 0)
    world.pass_away("team-a")
    world.keep_open()
    assert world.found() is None
    assert world.keeper.unsettled() == ()
    world.keep_open()
    assert world.found() is None


def test_the_ledger_of_a_namespace_that_is_gone_stays_while_it_promises() -> None:
    world = opened()
    assert world.code("u1", 2) == 200
    world.pass_away("team-a")
    world.keep_open()
    assert world.sums() == (0, 2)
    for _ in range(3):
        world.now += BOUND
        world.keep_open()
    assert world.found() is None


def test_who_does_not_lead_leaves_the_ledger_of_a_namespace_that_is_gone_to_who_does() -> None:
    world = opened()
    world.keep()
    world.role.is_leader = False
    world.pass_away("team-a")
    world.keep_open()
    assert world.found() is not None
    assert world.keeper.unsettled() == ()
    world.now += 61.0
    assert len(world.keeper.unsettled()) == 1
    world.role.is_leader = True
    world.keep_open()
    assert world.found() is None


def test_a_ledger_that_may_not_be_taken_away_is_tried_again_after_a_minute() -> None:
    world = opened()
    world.keep()
    world.pass_away("team-a")
    world.forbid_removal(is_forbidden=True)
    with pytest.raises(StoreUnavailableError):
        world.keep_open()
    assert dict(world.keeper.keys(["team-a"])) == {}
    assert world.keeper.unsettled() == ()
    world.now += 61.0
    world.forbid_removal(is_forbidden=False)
    world.keep_open()
    assert world.found() is None


def test_a_namespace_that_comes_again_finds_room() -> None:
    world = opened()
    world.keep()
    world.pass_away("team-a")
    world.keep_open()
    world.labelled("team-a")
    assert world.code("u1", 4) == 200
    assert world.sums() == (0, 4)


def test_pods_in_a_namespace_that_has_gone_are_of_another_of_its_name() -> None:
    """Namespaces are seen less far than pods: a count that leaves these pods out would be of no moment."""
    world = opened(SHARED)
    world.labelled("team-b")
    world.keep()
    assert world.code("u1", 2) == 200
    world.pass_away("team-a")
    world.store("u1", 2)
    world.see("u1")
    world.keep(BOUND)
    world.keep(BOUND)
    assert sum(world.sums()) == 2
    assert world.code("u2", 3, "team-b") == 403
    world.labelled("team-a")
    world.keep()
    assert world.sums() == (2, 0)


def test_who_is_at_it_while_a_cap_goes_out_of_force_charges_by_what_was_counted_since_it_came() -> None:
    world = opened()
    (counted,) = world.caps.all()
    world.sight.in_force([])
    world.sight.in_force([counted.key])
    came = world.sight.counted_since(counted.key)
    assert came == world.at
    world.sight.in_force([])
    assert world.sight.counted_since(counted.key) == came
    world.sight.in_force([])
    assert world.sight.counted_since(counted.key) > 2**60
