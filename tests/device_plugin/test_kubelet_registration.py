"""The steps of a registration, as a table and as a walk over time."""

import pytest

from tallygate.device_plugin.kubelet_registration import (
    FOLLOW_SECONDS,
    KubeletState,
    SocketIdentity,
    Step,
    choose_step,
    record_failure,
    record_success,
)

_FIRST, _SECOND = (1, 10, 100), (1, 10, 200)
_REGISTERED = KubeletState(_FIRST, wait_until=5.0)


@pytest.mark.parametrize(
    ("state", "now", "kubelet", "is_serving", "is_followed", "step"),
    [
        pytest.param(KubeletState(), 0.0, None, False, False, Step.SERVE, id="it serves before there is a kubelet"),
        pytest.param(KubeletState(), 0.0, None, True, False, Step.WAIT, id="without a kubelet it waits"),
        pytest.param(KubeletState(), 0.0, _FIRST, True, False, Step.REGISTER, id="it registers with a kubelet"),
        pytest.param(_REGISTERED, 6.0, _FIRST, True, True, Step.WAIT, id="a registered plugin rests"),
        pytest.param(_REGISTERED, 4.0, _FIRST, True, False, Step.WAIT, id="a kubelet has some time to follow"),
        pytest.param(_REGISTERED, 6.0, _FIRST, True, False, Step.REGISTER, id="then it is asked again"),
        pytest.param(_REGISTERED, 6.0, _FIRST, False, True, Step.SERVE, id="a deleted socket is made again"),
        pytest.param(_REGISTERED, 6.0, _SECOND, True, True, Step.REGISTER, id="a new socket is a new kubelet"),
        pytest.param(KubeletState(wait_until=1.0), 0.5, _FIRST, False, False, Step.WAIT, id="a failure delays all"),
    ],
)
def test_the_next_step(  # noqa: PLR0913, PLR0917  one argument for each column
    state: KubeletState,
    now: float,
    kubelet: SocketIdentity | None,
    is_serving: bool,  # noqa: FBT001  a column of the table
    is_followed: bool,  # noqa: FBT001  likewise
    step: Step,
) -> None:
    assert choose_step(state, now, kubelet, is_serving=is_serving, is_followed=is_followed) is step


def test_failures_double_the_delay_up_to_half_a_minute() -> None:
    state, delays = KubeletState(), []
    for _ in range(9):
        state = record_failure(state, 100.0)
        delays.append(state.wait_until - 100.0)
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_success_forgets_the_failures() -> None:
    assert record_success(7.0, _FIRST) == KubeletState(_FIRST, 7.0 + FOLLOW_SECONDS, 0)
