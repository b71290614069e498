"""The world: every step that a schedule can take. What a step chooses, it chooses by its numbers."""

from collections.abc import Mapping

from tests.gate.simulation.api_server import ApiServer
from tests.gate.simulation.etcd import Etcd
from tests.gate.simulation.ground import Act, Ground
from tests.gate.simulation.processes import Processes
from tests.gate.simulation.users import Users
from tests.state.simulation.violation import ViolationError


class World(Ground):
    """Everything there is, and everybody who acts in it."""

    def __init__(self) -> None:
        super().__init__()
        self._acts: Mapping[str, Act] = {
            **Users(self).acts,
            **ApiServer(self).acts,
            **Etcd(self).acts,
            **Processes(self).acts,
            "tick": self._tick,
        }

    def step(self, op: str, a: int, b: int, token: int) -> str:
        """Take a step; says what happened, or nothing when nothing could.

        Raises:
            ViolationError: something does not hold any more.
        """
        self.token = token
        did = self._acts[op](a, b)
        if self.looking.violation:
            raise ViolationError(self.looking.violation)
        return did

    def end(self) -> None:
        """Leave no thread behind."""
        for task in self.under_way:
            task.kill()
        self.under_way.clear()

    def _tick(self, _a: int, _b: int) -> str:
        self.truth.now += 1.0
        return f"time {self.truth.now:.0f}"
