"""No schedule of some hundred violates an invariant, and each mutant does; `make simulate` plays more schedules."""

import itertools
import re

import pytest

from tests.gate.simulation.mutants import MUTANTS, PROGRAM
from tests.gate.simulation.runner import get_policies, list_mixes, simulate
from tests.gate.simulation.world import open_world

_SCHEDULES, _CLAIM_SCHEDULES, _ROLLOUT_SCHEDULES = 40, 12, 8
_MAX_SCHEDULES = 1000
"""The number of schedules to try if the seed of a mutant no longer fails."""


@pytest.mark.parametrize("mix", list_mixes())
def test_no_schedule_violates_an_invariant(mix: str) -> None:
    policies, schedules = get_policies(mix), _SCHEDULES
    if policies.has_claims or policies.has_reviews:
        schedules = _CLAIM_SCHEDULES if policies.has_claims else _ROLLOUT_SCHEDULES
    PROGRAM.check(mix, range(schedules))


@pytest.mark.parametrize(
    ("mix", "seed"),
    [
        pytest.param("nodes", 868, id="a late change that adds nothing makes the ledger charge more than the limit"),
        pytest.param("nodes and faults", 930, id="a record has nothing that a replica left out as too old"),
    ],
)
def test_no_bound_of_the_simulation_is_too_narrow(mix: str, seed: int) -> None:
    PROGRAM.check(mix, (seed,))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_and_the_product_passes_the_same_schedule(name: str) -> None:
    MUTANTS[name].check(_MAX_SCHEDULES)


def test_the_document_lists_every_mutant_and_no_other() -> None:
    assert PROGRAM.read_table_rows() == PROGRAM.list_table_rows()


def test_a_seed_has_the_same_story_every_time() -> None:
    story = _play("storms", 7)
    assert _play("storms", 7) == story
    assert len(story) > 200


def test_pods_claims_and_ledgers_are_stored_and_expired_reservations_are_read() -> None:
    """Schedules without these steps would violate nothing either."""
    missing = {
        "create u# is sent to etcd",
        "update u# is sent to etcd",
        "replica # writes team-a",
        "a late write arrives",
        "replica # reads a pod",
        "create c# is sent to etcd",
        "update c# is sent to etcd",
        "replica # reads a claim",
        "replica # has counted claims",
        "replica # has found the pods of claims",
        "replica # waits in the queue",
        "create w# is sent to etcd",
        "replica # reads jobs",
        "create r# is sent to etcd",
        "replica # reads replicasets",
        "deployment d# deletes r# (revision #)",
        "replica # crashes and starts again",
    }
    mixes = (
        "storms", "old reservations", "gangs", "rollouts", "pods of claims end", "old reservations of claims",
    )  # fmt: skip
    for seed, mix in itertools.product(range(30), mixes):
        missing -= {re.sub(r"\d+", "#", line) for line in _play(mix, seed)}
        if not missing:
            break
    assert not missing


def test_every_kind_of_step_does_something() -> None:
    useful: set[str] = set()
    mixes = (
        "storms", "relabelled namespaces", "groups", "names", "new caps", "registrations", "gangs", "pod groups",
        "rollouts, gangs and limits that end",
        "nodes", "the scheduler's claims", "devices", "classes",
    )  # fmt: skip
    for seed, mix in itertools.product(range(12), mixes):
        with open_world(get_policies(mix)) as world:
            useful |= {step[0] for step in simulate(mix).draw(seed) if world.step(*step)}
    assert useful == {step for weights in list_mixes().values() for step, weight in weights.items() if weight}


def test_a_cut_down_schedule_violates_the_same_rules_and_needs_each_of_its_steps() -> None:
    mutant = MUTANTS["settle_one_by_one"]
    simulation = mutant.simulation
    failure = simulation.play_seed(mutant.seed)
    assert failure is not None
    short = simulation.cut_down(failure)
    assert len(short.steps) < len(failure.steps) // 4
    assert simulation.play(short.steps, short.end) == short
    for number in range(len(short.steps)):
        assert simulation.play(short.steps[:number] + short.steps[number + 1 :], short.end) is None
    assert "settle_one_by_one 3" in PROGRAM.report("settle_one_by_one", 3, short).replace("'", "")


def _play(mix: str, seed: int) -> list[str]:
    with open_world(get_policies(mix)) as world:
        for step in simulate(mix).draw(seed):
            world.step(*step)
        return world.story
