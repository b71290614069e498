"""The arithmetic of the stress tests: faults that it must find, and results that are no faults."""

from http import HTTPStatus
from typing import Any

from e2e.stress.clients import NO_ANSWER, Attempt
from e2e.stress.objects import GPU, pod
from e2e.stress.outcome import compute_outcome, find_unfounded
from e2e.stress.pod_usage import Limit, PodUsage

_CREATED, _FORBIDDEN, _BUSY = int(HTTPStatus.CREATED), int(HTTPStatus.FORBIDDEN), int(HTTPStatus.TOO_MANY_REQUESTS)


def _create_usage(hard: int = 2, resource: str = GPU) -> PodUsage:
    return PodUsage(Limit(hard, resource, lambda namespace, labels: None if "out" in labels else namespace))


def _create_stored_pod(uid: str, amount: str, resource: str = GPU, **labels: str) -> dict[str, Any]:
    made = pod(uid, {resource: amount}, labels)
    made["metadata"] |= {"uid": uid, "namespace": "team-a"}
    return made


def _attempt(at: float, status: int, name: str = "p") -> Attempt:
    return Attempt(name, at, at + 0.1, status)


def test_the_maximum_is_the_largest_usage_of_any_moment() -> None:
    usage = _create_usage()
    for uid in "abc":
        usage.see(_create_stored_pod(uid, "1"))
    usage.see(_create_stored_pod("a", "1"), is_deleted=True)
    assert (usage.now("team-a"), usage.peak, usage.is_over) == (2, 3, True)


def test_an_updated_pod_is_counted_once_with_its_latest_requests() -> None:
    usage = _create_usage(2, "cpu")
    for amount in ("1500m", "1", "1500m", "2"):
        usage.see(_create_stored_pod("a", amount, "cpu"))
    assert (usage.now("team-a"), usage.peak, usage.is_over) == (2, 2, False)


def test_pods_that_ended_or_left_the_filter_are_not_counted() -> None:
    usage = _create_usage()
    usage.see(_create_stored_pod("a", "1"))
    usage.see(_create_stored_pod("b", "1"))
    usage.see(_create_stored_pod("a", "1") | {"status": {"phase": "Succeeded"}})
    usage.see(_create_stored_pod("b", "1", out="yes"))
    assert (usage.now("team-a"), usage.list_uids()) == (0, frozenset())


def test_a_denial_is_unfounded_if_the_limit_was_free() -> None:
    stored, refused = _attempt(0, _CREATED, "a"), _attempt(1, _FORBIDDEN, "b")
    assert find_unfounded([stored, refused], 2, bound=5) == [refused]
    assert find_unfounded([stored, refused], 1, bound=5) == []


def test_a_request_of_unknown_outcome_is_counted_for_the_in_flight_bound() -> None:
    lost = _attempt(0, NO_ANSWER, "a")
    assert find_unfounded([lost, _attempt(5, _FORBIDDEN)], 1, bound=5) == []
    assert len(find_unfounded([lost, _attempt(7, _FORBIDDEN)], 1, bound=5)) == 1


def test_the_figures_of_a_stress_test() -> None:
    usage = _create_usage()
    usage.see(_create_stored_pod("a", "1"))
    attempts = [
        _attempt(0, _BUSY, "a"),
        _attempt(1, NO_ANSWER, "a"),
        _attempt(2, 500, "a"),
        _attempt(3, _CREATED, "a"),
        _attempt(4, _FORBIDDEN, "b"),
        _attempt(5, _BUSY, "c"),
    ]
    found = compute_outcome("storm", attempts, usage)
    assert (found.stored, found.refused, found.busy, found.errors) == (1, 1, 2, {"no answer": 1, "500": 1})
    assert found.unmet == ["c has no final answer but 429"]
