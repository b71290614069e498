"""Ledgers that are made, and when they may promise: after what was in flight is counted, or at once."""

from dataclasses import replace

from tests.gate.scene import never, pod, response
from tests.gate.world import BOUND, World, opened
from tests.state.attempts import Put
from webhook.gate.usage_lister import UsageLister
from webhook.state.informers.named_stores import NamespaceStore
from webhook.state.ports import LedgerKey


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
        "cap gpus: the ledger was created again, and what is in flight is not known yet; no decision: retry in 1 s"
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
    assert not world.kept("team-new").initializer
    assert world.kept("team-a").initializer


def test_a_ledger_that_a_new_namespace_has_lost_again_is_not_taken_for_its_first() -> None:
    """Somebody deleted it by hand: what it had promised is not known."""
    world = World()
    world.labelled("team-new")
    (counted,) = world.caps.list_caps()
    key = LedgerKey(counted.key, "team-new")
    assert world.sight.is_new_ledger(key)
    assert not world.sight.is_new_ledger(LedgerKey(counted.key, "team-a"))
    world.keep()
    assert not world.sight.is_new_ledger(key)
    world.lose(key)
    assert world.code("u1", 1, "team-new") == 429
    assert world.kept("team-new").initializer


def test_a_ledger_that_was_first_met_a_minute_after_its_namespace_came_is_not_taken_for_its_first() -> None:
    """Nobody looked for it meanwhile, and nothing else happened to namespaces."""
    world = World()
    world.labelled("team-new")
    world.now += 61
    assert world.code("u1", 1, "team-new") == 429
    assert world.kept("team-new").initializer


def test_a_ledger_opens_though_nothing_else_of_it_changes() -> None:
    world = opened()
    world.ledgers.transact(world.key(), Put(lambda found: replace(found or never(), initializer="m")), 0.0)
    world.open()
    assert not world.kept().initializer


def test_no_namespace_is_taken_for_gone_before_namespaces_are_listed() -> None:
    world = World()
    sight = UsageLister(world.pods, NamespaceStore(), lambda: world.now, lambda: world.now)
    assert not sight.is_namespace_deleted(world.key())
    assert not world.sight.is_namespace_deleted(world.key())
    world.pass_away("team-a")
    assert world.sight.is_namespace_deleted(world.key())


def test_a_ledger_that_promises_nothing_is_opened_by_whoever_sees_it() -> None:
    world = World()
    assert world.code("u1") == 429
    world.role.leading = False
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
