"""Replicas that tell anything at all: every check comes to something, on one line."""

import pytest

from tests.cli.doctor.changes import FAIL
from tests.cli.doctor.world import READY, Object, metrics, replica, said, well, wrong
from webhook.cli.doctor.command import run_checks


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf"), 1e300, -1.0])
def test_what_a_replica_tells_may_be_anything(odd: float) -> None:
    told = {
        name.removeprefix("tallygate_"): [({"cap": "a\nb", "state": "exceeded", "result": "failed"}, odd)]
        for name in metrics().samples
    }
    for found in run_checks(well(replicas=(replica(told=metrics(**told)),))):
        assert "\n" not in found.result.reason


def test_the_readiness_of_a_replica_may_be_anything() -> None:
    odds: tuple[Object, ...] = (
        {},
        {"checks": {"policies": 3, "watches": {"pods": "x"}}},
        READY | {"status": 5},
        {"checks": []},
    )
    for odd in odds:
        facts = well(replicas=(replica(readiness=odd),))
        assert said("replicas", facts).status is FAIL
        wrong(facts)
