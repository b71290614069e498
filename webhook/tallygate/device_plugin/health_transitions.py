"""The transitions of a device's health: a result of a check in, the next state out."""

from dataclasses import dataclass, replace

from tallygate.device_plugin.device_config import HealthCheck


@dataclass(frozen=True, slots=True)
class HealthState:
    """The health of one device: `is_healthy` has no value until its first check.

    `contrary` is the number of successive results that contradict the state; `reason` is the last failure of an
    unhealthy device.
    """

    is_healthy: bool | None = None
    contrary: int = 0
    reason: str = "not checked yet"


@dataclass(frozen=True, slots=True)
class HealthResult:
    """The result of one check: `failure` is "" if it passed."""

    failure: str = ""

    @property
    def is_passed(self) -> bool:
        return not self.failure


def record_result(state: HealthState, result: HealthResult, check: HealthCheck) -> HealthState:
    """Return the state after a result. The first result of a device decides alone."""
    if state.is_healthy is None:
        return HealthState(result.is_passed, 0, result.failure)
    if state.is_healthy is result.is_passed:
        return replace(state, contrary=0, reason=result.failure)
    contrary = state.contrary + 1
    if contrary < (check.successes if result.is_passed else check.failures):
        return replace(state, contrary=contrary)
    return HealthState(result.is_passed, 0, result.failure)
