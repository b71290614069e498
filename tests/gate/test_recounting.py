"""When a ledger is counted: not while others write it, yet soon enough, and by who promises where promises are many."""

from tests.gate.scene import CAP
from tests.gate.world import BOUND, World, opened, promised_and_stored


def busy() -> World:
    """A ledger with a promise that could be counted, and others that came since the keeper was there."""
    world = opened(CAP.replace("4", "100"))
    promised_and_stored(world, "u1")
    world.keep()
    world.see("u1")
    promised_and_stored(world, "u2")
    return world


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


def test_a_ledger_that_others_keep_writing_loses_a_reservation_when_its_time_has_come() -> None:
    """One visit writes after the bound, the next one reads the pod. Neither leaves that to others."""
    world = opened(CAP.replace("4", "100"))
    assert world.code("lost") == 200
    world.keep()
    promised_and_stored(world, "u1")
    world.see("u1")
    world.keep(BOUND - 1)
    world.keep(0.2)
    assert world.sums() == (1, 1)
    assert world.code("u2") == 200
    world.keep(1)
    assert world.code("u3") == 200
    world.keep()
    assert list(world.kept().reservations) == ["u2", "u3"]


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
