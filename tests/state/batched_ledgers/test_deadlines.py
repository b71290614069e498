"""Who serves, for how long, and what becomes of those who wait once a deadline passes."""

import pytest

from tests.state.attempts import Take, room
from tests.state.batched_ledgers.crowd import crowd
from tests.state.batched_ledgers.script import ScriptedStore
from webhook.state.ports import RetryLaterError, StoreUnavailableError


def test_a_caller_whose_deadline_passes_goes_and_the_next_one_serves() -> None:
    def slow(store: ScriptedStore) -> None:
        asked.come(Take("u1"), Take("u2"), deadline=100.0)
        asked.clock.seconds = 50.0
        store.change(room(4))  # so that the first must try again, for which there is no time

    asked = crowd(writes=(slow,))
    with pytest.raises(RetryLaterError, match="others were in the way until the deadline"):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True, True]
    assert list(asked.store.now.reservations) == ["u1", "u2"]


def test_of_those_who_wait_the_one_with_the_most_time_serves_next() -> None:
    def slow(store: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=51.0)
        asked.come(Take("u2"), deadline=53.0)
        asked.come(Take("u3"), deadline=52.0)
        asked.clock.seconds = 50.0
        store.change(room(4))

    asked = crowd(writes=(slow,))
    with pytest.raises(RetryLaterError):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 3
    assert asked.store.patiences == [5.0, 5.0, 3.0, 3.0]


def test_a_call_that_takes_all_the_time_of_who_serves_is_no_verdict_for_the_others() -> None:
    def hang(_: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=100.0)
        asked.clock.seconds = 50.0
        raise StoreUnavailableError("timed out")

    asked = crowd(reads=(hang,))
    with pytest.raises(RetryLaterError):
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
    with pytest.raises(RetryLaterError):
        asked.ask(Take("u1"))
    assert asked.store.calls == []


def test_who_waits_in_vain_goes_at_the_deadline() -> None:
    waited: list[BaseException | None] = []

    def hold(_: ScriptedStore) -> None:
        asked.come(Take("u1"), deadline=0.0)
        waited.append(asked.came[0].exception(30.0))

    asked = crowd(writes=(hold,))
    assert asked.ask(Take("u0"))
    assert isinstance(waited[0], RetryLaterError)
    assert list(asked.store.now.reservations) == ["u0"]
