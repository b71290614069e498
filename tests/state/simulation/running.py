"""Runs schedules, shrinks those that break something, and tells them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.state.simulation.quiet import Quiet
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import Scenario, Step
from tests.state.simulation.violation import ViolationError
from tests.state.simulation.world import World

_ENDS = (0, 1, 2, 3, 6, 0xFFF0, 0xFFFF)
"""How a shrunk schedule may come to rest: all that is under way lands, some of it, none."""


@dataclass(frozen=True)
class Broken:
    """A schedule that breaks an invariant: which, and what happens in it, line by line."""

    violation: str
    told: tuple[str, ...]
    steps: tuple[Step, ...]
    end: int


def run(scenario: Scenario, steps: Sequence[Step], end: int, rules: Rules = PRODUCT) -> Broken | None:
    """Take every step, look after each, come to rest; what was broken, if something was."""
    world = World(scenario, rules)
    world.told = told = []
    taken: list[Step] = []
    try:
        for step in steps:
            taken.append(step)
            if did := world.step(step):
                told.append(did)
        Quiet(world, end).check()
    except ViolationError as error:
        return Broken(str(error), tuple(told), tuple(taken), end)
    return None


def seeded(scenario: Scenario, seed: int, rules: Rules = PRODUCT) -> Broken | None:
    """Run the schedule of a seed."""
    return run(scenario, scenario.schedule(seed), seed, rules)


def shrink(scenario: Scenario, broken: Broken, rules: Rules = PRODUCT) -> Broken:
    """Leave out what is not needed: halves first, then less and less, as long as something still breaks."""
    best, size = broken, max(len(broken.steps) // 2, 1)
    while True:
        smaller = _without(scenario, best, size, rules)
        if smaller is not None:
            best = smaller
        elif size > 1:
            size //= 2
        else:
            return best
        size = max(min(size, len(best.steps)), 1)


def _without(scenario: Scenario, broken: Broken, size: int, rules: Rules) -> Broken | None:
    steps = broken.steps
    for start in range(len(steps) - 1, -1, -size):
        first = max(start - size + 1, 0)
        for end in dict.fromkeys((broken.end, *_ENDS)):
            found = run(scenario, (*steps[:first], *steps[start + 1 :]), end, rules)
            if found is not None and len(found.steps) < len(steps):
                return found
    return None


def report(name: str, seed: int, broken: Broken) -> str:
    """What broke, and how, as a person reads it."""
    lines = [f"{name!r}, seed {seed}: {broken.violation}"]
    lines += [f"  {number:3}. {told}" for number, told in enumerate(broken.told, 1)]
    lines.append(f"again: python -m tests.state.simulation replay {name!r} {seed}")
    return "\n".join(lines)
