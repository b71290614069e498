"""No schedule of some thousand violates an invariant, and each mutant does; `make simulate` plays more schedules."""

import pytest

from tests.state.simulation.mutants import MUTANTS, PROGRAM
from tests.state.simulation.scenarios import SCENARIOS
from tests.state.simulation.world import World

_SCHEDULES = 80
_MAX_SCHEDULES = 3000
"""The number of schedules to try if the seed of a mutant no longer fails."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_schedule_violates_an_invariant(name: str) -> None:
    PROGRAM.check(name, range(_SCHEDULES))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_and_the_product_passes_the_same_schedule(name: str) -> None:
    MUTANTS[name].check(_MAX_SCHEDULES)


def test_the_document_lists_every_mutant_and_no_other() -> None:
    assert PROGRAM.read_table_rows() == PROGRAM.list_table_rows()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_has_the_same_story_every_time(name: str) -> None:
    scenario = SCENARIOS[name]
    first, second = World(scenario), World(scenario)
    for step in scenario.draw(7):
        first.step(step)
        second.step(step)
    assert first.story == second.story
    assert len(first.story) > 40


def test_every_kind_of_step_does_something() -> None:
    useful: set[str] = set()
    for scenario in SCENARIOS.values():
        for seed in range(10):
            world = World(scenario)
            useful |= {step[0] for step in scenario.draw(seed) if world.step(step)}
    assert useful == {step[0] for scenario in SCENARIOS.values() for step in scenario.draw(0)}


def test_a_cut_down_schedule_violates_the_same_rules_and_needs_each_of_its_steps() -> None:
    mutant = MUTANTS["settle_on_sight"]
    simulation = mutant.simulation
    failure = simulation.play_seed(mutant.seed)
    assert failure is not None
    short = simulation.cut_down(failure)
    assert len(short.steps) < len(failure.steps) // 4
    assert simulation.play(short.steps, short.end) == short
    for number in range(len(short.steps)):
        without = short.steps[:number] + short.steps[number + 1 :]
        assert simulation.play(without, short.end) is None
    assert "settle_on_sight 3" in PROGRAM.report("settle_on_sight", 3, short).replace("'", "")
