"""The class of the claims comes, goes and leads elsewhere, and each replica sees that later."""

from collections.abc import Mapping

from tests.gate.simulation.device_policies import ELSEWHERE, MAPPED, MISSING
from tests.gate.simulation.environment import Environment, StepFunction

_NEXT: Mapping[str, tuple[str, ...]] = {
    MAPPED: (MISSING, ELSEWHERE),
    ELSEWHERE: (MAPPED, MAPPED, MISSING),
    MISSING: (MAPPED, MAPPED, ELSEWHERE),
}


class Classes:
    """An administrator installs a driver again, and changes its class."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self.steps: Mapping[str, StepFunction] = {"change_class": self._change, "watch_class": self._watch}

    def _change(self, a: int, _b: int) -> str:
        if self._truth.is_stalled or not self._environment.policies.has_classes:
            return ""
        choices = _NEXT[self._truth.class_states[-1]]
        self._truth.revision += 1
        self._truth.class_states.append(choices[a % len(choices)])
        return f"the class is {self._truth.class_states[-1]} (revision {self._truth.revision})"

    def _watch(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None or not replica.watch_class():
            return ""
        return f"replica {replica.number} sees that the class is {replica.class_state}"
