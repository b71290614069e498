"""Nobody is told what may no longer hold: when a ledger is looked up, and how long a refusal is remembered."""

from tests.state.attempts import Look, Put, Take, room
from tests.state.batched_ledgers.crowd import crowd, crowded
from tests.state.batched_ledgers.script import Happening


def bound(gpus: int) -> Happening:
    """Let somebody else write another bound."""
    return lambda store: store.change(room(gpus))


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
    assert "u2" not in asked.store.now.reservations


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
