"""The health of a device: a change takes a number of results in succession."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.device_plugin.device_config import HealthCheck
from tallygate.device_plugin.health_transitions import HealthResult, HealthState, record_result

_PASSED, _FAILED = HealthResult(), HealthResult("broken")


def _play(results: str, failures: int, successes: int) -> str:
    """Return the health after each result: `+` passed or healthy, `-` failed or unhealthy."""
    state, history = HealthState(), ""
    check = HealthCheck(file="/run/x", failures=failures, successes=successes)
    for result in results:
        state = record_result(state, _PASSED if result == "+" else _FAILED, check)
        history += "+" if state.is_healthy else "-"
    return history


@pytest.mark.parametrize(
    ("results", "failures", "successes", "health"),
    [
        pytest.param("+", 3, 2, "+", id="the first result decides alone"),
        pytest.param("-", 3, 2, "-", id="also if it failed"),
        pytest.param("+---", 3, 1, "+++-", id="three failures make it unhealthy"),
        pytest.param("+--+--", 3, 1, "++++++", id="a pass between begins the count again"),
        pytest.param("-+-++", 3, 2, "----+", id="two passes in succession make it healthy"),
        pytest.param("+-+-", 1, 1, "+-+-", id="without hysteresis it follows"),
    ],
)
def test_health_changes_after_results_in_succession(results: str, failures: int, successes: int, health: str) -> None:
    assert _play(results, failures, successes) == health


@given(st.text("+-", min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_no_change_comes_earlier_than_the_number_of_results(results: str, failures: int, successes: int) -> None:
    history = _play(results, failures, successes)
    for index, (before, after) in enumerate(pairwise(history), start=1):
        needed = successes if after == "+" else failures
        run = results[max(0, index + 1 - needed) : index + 1]
        assert (before != after) == (before != results[index] and run == after * needed and index >= needed)


def test_the_reason_is_that_of_the_last_failure() -> None:
    check = HealthCheck(file="/run/x", failures=1)
    unhealthy = record_result(record_result(HealthState(), _PASSED, check), HealthResult("first"), check)
    assert unhealthy.reason == "first"
    assert record_result(unhealthy, HealthResult("second"), check).reason == "second"
