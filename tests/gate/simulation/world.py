"""The world: every step that a schedule can take. A step chooses by its numbers alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from tallygate.gate import ledger_reconciler
from tallygate.state import batched_ledgers
from tallygate.state.ledger import expire
from tests.gate.simulation.actors import ApiServer, Etcd, Users
from tests.gate.simulation.claim_actors import Claims, Drivers
from tests.gate.simulation.class_actors import Classes
from tests.gate.simulation.device_policies import PODS_ONLY, Policies
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.gang_actors import Workloads
from tests.gate.simulation.gang_rooms import GANG_SECONDS
from tests.gate.simulation.group_actors import PodGroups
from tests.gate.simulation.node_actors import Nodes
from tests.gate.simulation.registration_actors import Registrations
from tests.gate.simulation.replica_actors import Replicas
from tests.gate.simulation.rollout_actors import Rollouts
from tests.gate.simulation.tasks import Signal
from tests.schedules import ViolationError


class World(Environment):
    """The environment and the actors in it; `story` has a line for each step that did something."""

    def __init__(self, policies: Policies) -> None:
        super().__init__(policies)
        self.story: list[str] = []
        self.claims, self.rollouts = Claims(self), Rollouts(self)
        self._steps: Mapping[str, StepFunction] = {
            **Users(self).steps,
            **ApiServer(self).steps,
            **Etcd(self).steps,
            **Replicas(self).steps,
            **Registrations(self).steps,
            **self.claims.steps,
            **Drivers(self).steps,
            **Classes(self).steps,
            **Workloads(self).steps,
            **PodGroups(self).steps,
            **self.rollouts.steps,
            **Nodes(self).steps,
            "tick": self._tick,
        }

    def step(self, op: str, a: int, b: int, token: int) -> str:
        """Take a step; return its line of the story, which is empty if nothing could be done.

        Raises:
            ViolationError: if an invariant is violated.
        """
        self.token = token
        line = self._steps[op](a, b)
        if self.invariants.violation:
            raise ViolationError(self.invariants.violation)
        if line:
            self.story.append(line)
        return line

    def _tick(self, _a: int, _b: int) -> str:
        self.truth.now += 1.0
        return f"time {self.truth.now:.0f}"


@contextmanager
def open_world(policies: Policies = PODS_ONLY) -> Iterator[World]:
    """Yield a world whose wait queues use its clock; end its threads on exit."""
    world = World(policies)
    signal = type("WorldSignal", (Signal,), {"tasks": world.tasks, "now": staticmethod(world.truth.clock)})
    bounds = [patch.object(module, "GANG_BOUND_SECONDS", GANG_SECONDS) for module in (expire, ledger_reconciler)]
    with patch.object(batched_ledgers, "Event", signal), bounds[0], bounds[1]:
        try:
            yield world
        finally:
            world.end()
