"""Of several replicas the one that leads keeps the ledgers; the others watch, and remember."""

import pytest

from tests.gate.scene import CAP, never
from tests.gate.world import BOUND, World, opened, promised_and_stored
from tests.state.attempts import Look, Put


def test_who_does_not_lead_leaves_ledgers_as_they_are() -> None:
    world = opened()
    promised_and_stored(world, "u1")
    world.see("u1")
    world.role.leading = False
    for _ in range(5):
        world.keep(BOUND / 5)
    assert world.sums() == (0, 1)
    world.role.leading = True
    world.keep()
    assert world.sums() == (1, 0)


def test_who_did_not_lead_has_remembered_how_old_promises_are() -> None:
    world = opened()
    world.role.leading = False
    assert world.code("lost") == 200
    world.keep()
    world.keep(BOUND + 1)
    world.role.leading = True
    world.keep()
    assert world.sums() == (0, 1)
    world.keep(1)
    assert world.sums() == (0, 0)


def test_a_promise_that_who_leads_does_not_know_of_is_dropped_by_who_does() -> None:
    """Its pod never came, so that nothing has changed that would send the leader there."""
    world = opened()
    world.role.leading = False
    assert world.code("lost") == 200
    world.keep()
    world.keep(BOUND + 5)
    assert world.sums() == (0, 1)
    world.keep(1)
    world.keep(1)
    assert world.sums() == (0, 0)


@pytest.mark.parametrize(("rows", "tally"), [(1499, 0), (1500, 1)], ids=["is left", "is counted"])
def test_half_a_ledger_full_of_reservations_is_counted_by_who_does_not_lead_and_less(rows: int, tally: int) -> None:
    world = opened(CAP.replace("4", "5000"))
    promised_and_stored(world, "u1")
    world.see("u1")
    world.role.leading = False
    row = world.kept().reservations["u1"]
    others = [(f"other-{number}", row) for number in range(rows - 1)]
    put = Put(lambda found: (found or never()).with_reservations([("u1", row), *others]))
    world.ledgers.transact(world.key(), put, 0.0)
    world.keep()
    assert world.sums()[0] == tally


def test_who_does_not_lead_makes_no_ledger() -> None:
    world = World()
    world.role.leading = False
    world.keep()
    assert world.ledgers.transact(world.key(), Look(), 10.0) is None
