"""Replicas with arbitrary metrics and readiness: every check has a result of one line."""

import pytest

from tallygate.cli.doctor.command import run_checks
from tests.cli.doctor.fact_changes import FAIL
from tests.cli.doctor.healthy_gate import READY, Object, create_facts, find_failures, metrics, replica, run_check


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, -1.0])
def test_metrics_of_a_replica_may_have_any_value(value: float) -> None:
    samples = {
        name.removeprefix("tallygate_"): [({"cap": "a\nb", "state": "exceeded", "result": "failed"}, value)]
        for name in metrics().samples
    }
    for found in run_checks(create_facts(replicas=(replica(samples=metrics(**samples)),))):
        assert "\n" not in found.result.reason


def test_the_readiness_of_a_replica_may_have_any_shape() -> None:
    invalid_documents: tuple[Object, ...] = (
        {},
        {"checks": {"policies": 3, "watches": {"pods": "x"}}},
        READY | {"status": 5},
        {"checks": []},
    )
    for value in invalid_documents:
        facts = create_facts(replicas=(replica(readiness=value),))
        assert run_check("replicas", facts).status is FAIL
        find_failures(facts)
