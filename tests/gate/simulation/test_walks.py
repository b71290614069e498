"""The product's parts under some hundred schedules; `python -m tests.gate.simulation walk` plays more."""

import itertools
import re

import pytest

from tests.gate.simulation.running import MIXES, play, report, schedule, world

_SCHEDULES = 40


@pytest.mark.parametrize("mix", MIXES)
def test_no_schedule_breaks_what_must_hold(mix: str) -> None:
    for seed in range(_SCHEDULES):
        _, broken = play(mix, seed)
        assert broken is None, report(mix, seed, broken)


def test_a_seed_tells_the_same_story_every_time() -> None:
    one, _ = play("storms", 7)
    other, _ = play("storms", 7)
    assert one == other
    assert sum(map(bool, one)) > 200


def test_pods_are_stored_ledgers_written_and_promises_read_again() -> None:
    """A schedule in which nothing comes to anything would break nothing either."""
    missing = {
        "create u# is sent to etcd",
        "update u# is sent to etcd",
        "replica # writes team-a",
        "a late write arrives",
        "replica # reads a pod",
        "replica # waits in line",
        "replica # crashes and begins anew",
    }
    for seed, mix in itertools.product(range(30), MIXES):
        missing -= {re.sub(r"\d+", "#", each) for each in play(mix, seed)[0]}
        if not missing:
            break
    assert not missing


def test_every_kind_of_step_comes_to_something() -> None:
    happened: set[str] = set()
    for seed, mix in itertools.product(range(12), ("storms", "moving namespaces")):
        with world() as made:
            happened |= {step[0] for step in schedule(mix, seed) if made.step(*step)}
    assert happened == {step for weights in MIXES.values() for step, weight in weights.items() if weight}
