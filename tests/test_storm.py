"""The arithmetic of the storms: what it must see, and what it must not take for a fault."""

from http import HTTPStatus
from typing import Any

from e2e.storm.clients import NO_ANSWER, Attempt
from e2e.storm.holding import Holding, Limit
from e2e.storm.objects import GPU, pod
from e2e.storm.outcome import outcome, unfounded

_CREATED, _FORBIDDEN, _BUSY = int(HTTPStatus.CREATED), int(HTTPStatus.FORBIDDEN), int(HTTPStatus.TOO_MANY_REQUESTS)


def _holding(hard: int = 2, resource: str = GPU) -> Holding:
    return Holding(Limit(hard, resource, lambda namespace, labels: None if "out" in labels else namespace))


def _seen(uid: str, amount: str, resource: str = GPU, **labels: str) -> dict[str, Any]:
    made = pod(uid, {resource: amount}, labels)
    made["metadata"] |= {"uid": uid, "namespace": "team-a"}
    return made


def _attempt(at: float, status: int, name: str = "p") -> Attempt:
    return Attempt(name, at, at + 0.1, status)


def test_the_most_is_what_was_held_at_any_moment() -> None:
    holding = _holding()
    for uid in "abc":
        holding.see(_seen(uid, "1"))
    holding.see(_seen("a", "1"), gone=True)
    assert (holding.now("team-a"), holding.most, holding.is_over) == (2, 3, True)


def test_pods_seen_again_are_counted_once_with_what_they_ask_now() -> None:
    holding = _holding(2, "cpu")
    for amount in ("1500m", "1", "1500m", "2"):
        holding.see(_seen("a", amount, "cpu"))
    assert (holding.now("team-a"), holding.most, holding.is_over) == (2, 2, False)


def test_pods_that_ended_or_left_the_filter_hold_nothing() -> None:
    holding = _holding()
    holding.see(_seen("a", "1"))
    holding.see(_seen("b", "1"))
    holding.see(_seen("a", "1") | {"status": {"phase": "Succeeded"}})
    holding.see(_seen("b", "1", out="yes"))
    assert (holding.now("team-a"), holding.uids()) == (0, frozenset())


def test_a_refusal_is_unfounded_when_there_must_have_been_room() -> None:
    stored, refused = _attempt(0, _CREATED, "a"), _attempt(1, _FORBIDDEN, "b")
    assert unfounded([stored, refused], 2, bound=5) == [refused]
    assert unfounded([stored, refused], 1, bound=5) == []


def test_what_nobody_knows_the_end_of_may_hold_room_for_the_bound() -> None:
    lost = _attempt(0, NO_ANSWER, "a")
    assert unfounded([lost, _attempt(5, _FORBIDDEN)], 1, bound=5) == []
    assert len(unfounded([lost, _attempt(7, _FORBIDDEN)], 1, bound=5)) == 1


def test_the_figures_of_a_storm() -> None:
    holding = _holding()
    holding.see(_seen("a", "1"))
    attempts = [
        _attempt(0, _BUSY, "a"),
        _attempt(1, NO_ANSWER, "a"),
        _attempt(2, 500, "a"),
        _attempt(3, _CREATED, "a"),
        _attempt(4, _FORBIDDEN, "b"),
        _attempt(5, _BUSY, "c"),
    ]
    found = outcome("storm", attempts, holding)
    assert (found.stored, found.refused, found.busy, found.errors) == (1, 1, 2, {"no answer": 1, "500": 1})
    assert found.unmet == ["c has no final answer but 429"]
