"""A ledger is taken away only as it was read, and only where nobody put anything into it meanwhile."""

import pytest

from tests.state.attempts import Put, Remove, Take, room
from tests.state.batched_ledgers.crowd import crowd, crowded
from tests.state.batched_ledgers.script import down
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import StoreUnavailableError


def taken(gpus: int, uid: str) -> Ledger:
    """A ledger with room for so many, one of which is promised to a pod."""
    step = Take(uid)(room(gpus))
    assert step.ledger is not None
    return step.ledger


def test_a_ledger_is_taken_away_as_it_was_read() -> None:
    asked = crowd()
    assert asked.ask(Remove())
    assert asked.store.calls == ["read", "remove"]
    assert asked.store.stored is None


def test_a_ledger_that_others_write_meanwhile_is_looked_at_again_and_kept() -> None:
    asked = crowd(writes=(lambda store: store.change(taken(4, "u1")),))
    assert not asked.ask(Remove())
    assert asked.store.calls == ["read", "remove", "read"]
    assert list(asked.store.now.reservations) == ["u1"]


def test_a_ledger_into_which_somebody_puts_something_together_with_who_takes_it_away_is_kept() -> None:
    asked = crowded(lambda crowd: crowd.come(Remove(), Take("u1")))
    assert asked.ask(Put(lambda before: before or room(4))) is None
    assert asked.outcomes() == [False, True]
    assert "remove" not in asked.store.calls
    assert list(asked.store.now.reservations) == ["u1"]


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
