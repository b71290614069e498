"""Play a schedule of a scenario under some rules."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.schedules import Failure, Mutant, Simulation, Step, ViolationError
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


def mutate(rule: int, description: str, scenario: Scenario, seed: int, rules: Rules = PRODUCT, **wrong: Any) -> Mutant:
    """Return the mutant in which `wrong` replaces some rules in a scenario, and the seed of a schedule that fails."""
    return Mutant(rule, description, simulate(scenario, replace(rules, **wrong)), simulate(scenario), seed)
