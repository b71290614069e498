"""Play a schedule of a scenario under some rules."""

from collections.abc import Sequence

from tests.schedules import Failure, Simulation, Step, ViolationError
from tests.state.simulation.convergence import Convergence
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import Scenario
from tests.state.simulation.world import World


def simulate(scenario: Scenario, rules: Rules = PRODUCT) -> Simulation:
    """Return the simulation of a scenario under some rules."""
    return Simulation(scenario.draw, lambda steps, end: _play(scenario, rules, steps, end))


def _play(scenario: Scenario, rules: Rules, steps: Sequence[Step], end: int) -> Failure | None:
    """Take every step, check the invariants after each, and converge."""
    world = World(scenario, rules)
    taken: list[Step] = []
    try:
        for step in steps:
            taken.append(step)
            world.step(step)
        Convergence(world, end).check()
    except ViolationError as error:
        return Failure(str(error), tuple(world.story), tuple(taken), end)
    return None
