"""Namespaces that go, and their ledgers: taken away when they are worth nothing, and found again by nobody."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gate.scene import SHARED, never
from tests.gate.world import BOUND, opened
from tests.state.attempts import Put
from webhook.accounting.amounts import Amounts
from webhook.state.ports import StoreUnavailableError


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
    assert world.keeper.list_pending() == ()
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


@pytest.mark.parametrize(
    "more",
    [{"used": Amounts({"nvidia.com/gpu": 3}), "pods_revision": 1000}, {"initializer": "m"}],
    ids=["another replica has counted pods in it", "what was reserved by it is not known"],
)
def test_the_ledger_of_a_namespace_that_is_gone_stays_while(more: dict[str, Any]) -> None:
    world = opened()
    world.keep()
    world.pass_away("team-a")
    world.ledgers.transact(world.key(), Put(lambda found: replace(found or never(), **more)), 0.0)
    world.keep_open()
    assert world.found() is not None


def test_the_ledgers_of_others_are_counted_while_another_namespace_may_have_come_again() -> None:
    world = opened()
    world.labelled("team-b")
    world.keep()
    world.pass_away("team-a")
    world.store("u1", 2)
    world.see("u1")
    world.store("u2", 3, "team-b")
    world.see("u2")
    world.keep()
    assert world.sums("team-b") == (3, 0)


def test_who_does_not_lead_leaves_the_ledger_of_a_namespace_that_is_gone_to_who_does() -> None:
    world = opened()
    world.keep()
    world.role.leading = False
    world.pass_away("team-a")
    world.keep_open()
    assert world.found() is not None
    assert world.keeper.list_pending() == ()
    world.now += 61.0
    assert len(world.keeper.list_pending()) == 1
    world.role.leading = True
    world.keep_open()
    assert world.found() is None


def test_a_ledger_that_may_not_be_taken_away_is_tried_again_after_a_minute() -> None:
    world = opened()
    world.keep()
    world.pass_away("team-a")
    world.forbid_removal(is_forbidden=True)
    with pytest.raises(StoreUnavailableError):
        world.keep_open()
    assert dict(world.keeper.list_ledgers(["team-a"])) == {}
    assert world.keeper.list_pending() == ()
    world.now += 61.0
    world.forbid_removal(is_forbidden=False)
    world.keep_open()
    assert world.found() is None


def test_a_reservation_does_not_expire_while_its_pod_is_in_a_namespace_that_this_replica_does_not_know() -> None:
    """Another namespace of that name has come, unseen for long: no count includes its pods, however new it is."""
    world = opened(SHARED)
    world.labelled("team-b")
    world.keep()
    assert world.code("u1", 2) == 200
    world.pass_away("team-a")
    world.store("u1", 2)
    world.see("u1")
    for _ in range(5):
        world.keep(BOUND)
    assert world.sums() == (0, 2)
    assert world.code("u2", 3, "team-b") == 403
    world.labelled("team-a")
    world.keep()
    assert world.sums() == (2, 0)


def test_a_reservation_expires_where_its_namespace_is_gone_and_its_pod_never_came() -> None:
    world = opened(SHARED)
    world.labelled("team-b")
    world.keep()
    assert world.code("u1", 2) == 200
    world.pass_away("team-a")
    for _ in range(3):
        world.keep(BOUND)
    assert world.sums() == (0, 0)
    assert world.code("u2", 4, "team-b") == 200


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
