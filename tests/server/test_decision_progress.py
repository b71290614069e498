"""Readiness and liveness show whether decisions still come through."""

import threading
from pathlib import Path

import pytest

from tallygate.server.web.admission_middleware import DecisionProgress
from tests.server.app_harness import MUTATE, create_review
from tests.server.process import ServerProcess, eventually

LIMIT, MAX_STUCK = 15.0, 4


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> DecisionProgress:
    """Return the progress of a gate without reviews."""
    return DecisionProgress(LIMIT, MAX_STUCK, clock)


def find_state(progress: DecisionProgress) -> tuple[bool, bool]:
    """Return whether the gate is ready, and whether it is alive."""
    return progress.check().ready, progress.is_alive()


def test_a_gate_without_reviews_is_ready_for_ever(progress: DecisionProgress, clock: Clock) -> None:
    clock.now += 10_000
    assert find_state(progress) == (True, True)


@pytest.mark.parametrize(
    ("seconds", "state"), [(LIMIT, (True, True)), (LIMIT + 1, (False, True)), (LIMIT + 61, (False, False))]
)
def test_a_decision_that_does_not_end_makes_the_gate_unready_and_then_dead(
    progress: DecisionProgress, clock: Clock, seconds: float, state: tuple[bool, bool]
) -> None:
    progress.begin()
    clock.now += seconds
    assert find_state(progress) == state


def test_the_gate_is_ready_again_when_a_decision_comes_through(progress: DecisionProgress, clock: Clock) -> None:
    key = progress.begin()
    clock.now += LIMIT + 100
    progress.end(key)
    assert find_state(progress) == (True, True)


def test_one_stuck_decision_among_others_that_end_is_no_reason(progress: DecisionProgress, clock: Clock) -> None:
    progress.begin()
    for _ in range(20):
        clock.now += 10.0
        progress.end(progress.begin())
    assert find_state(progress) == (True, True)
    assert progress.check().detail == {"stuck": 1}


def test_stuck_decisions_in_half_of_the_threads_are_one_though_others_end(
    progress: DecisionProgress, clock: Clock
) -> None:
    for _ in range(MAX_STUCK):
        progress.begin()
    clock.now += LIMIT + 61
    progress.end(progress.begin())
    assert find_state(progress) == (False, False)


def test_a_server_whose_reviews_hang_is_not_ready_until_they_end(tmp_path: Path) -> None:
    """Wait for five seconds more than the timeout of a decision."""
    with ServerProcess(tmp_path, times={"decision": 0.1}) as server, server.client() as client:
        hung = threading.Thread(target=client.post, args=(MUTATE,), kwargs={"content": create_review("wait-12000")})
        hung.start()
        assert eventually(lambda: server.monitor("/readyz").status_code == 503)
        assert server.monitor("/readyz").json()["checks"]["decisions"] == {"ready": False, "stuck": 1}
        assert server.monitor("/healthz").status_code == 200
        hung.join()
        assert eventually(lambda: server.monitor("/readyz").status_code == 200)
