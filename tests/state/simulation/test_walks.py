"""The product's rules under some thousand schedules; `make simulate` runs as many as one has time for."""

import pytest

from tests.state.simulation.running import report, run, seeded, shrink
from tests.state.simulation.scenario import SCENARIOS
from tests.state.simulation.variants import VARIANTS
from tests.state.simulation.world import World

_SCHEDULES = 80


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_schedule_breaks_an_invariant(name: str) -> None:
    scenario = SCENARIOS[name]
    for seed in range(_SCHEDULES):
        broken = seeded(scenario, seed)
        assert broken is None, report(name, seed, shrink(scenario, broken))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_tells_the_same_story_every_time(name: str) -> None:
    scenario = SCENARIOS[name]
    one, other = World(scenario), World(scenario)
    told = [one.step(step) for step in scenario.schedule(7)]
    assert [other.step(step) for step in scenario.schedule(7)] == told
    assert sum(map(bool, told)) > 40


def test_every_kind_of_step_comes_to_something() -> None:
    happened: set[str] = set()
    for scenario in SCENARIOS.values():
        for seed in range(10):
            world = World(scenario)
            happened |= {step[0] for step in scenario.schedule(seed) if world.step(step)}
    assert happened == {step[0] for scenario in SCENARIOS.values() for step in scenario.schedule(0)}


def test_what_is_left_of_a_schedule_breaks_the_same_rules_and_no_step_of_it_can_be_spared() -> None:
    variant = VARIANTS["settle_on_sight"]
    broken = seeded(variant.scenario, variant.seed, variant.rules)
    assert broken is not None
    short = shrink(variant.scenario, broken, variant.rules)
    assert len(short.steps) < len(broken.steps) // 4
    assert run(variant.scenario, short.steps, short.end, variant.rules) == short
    for number in range(len(short.steps)):
        without = short.steps[:number] + short.steps[number + 1 :]
        assert run(variant.scenario, without, short.end, variant.rules) is None
    assert "settle_on_sight 3" in report("settle_on_sight", 3, short).replace("'", "")
