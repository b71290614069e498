"""Drift: amounts that a recount finds without a reservation."""

import pytest

from tallygate.state.ledger.ledger import compute_drift
from tests.schedules import ViolationError
from tests.state.ledger.ledger_builders import (
    GPU,
    IPS,
    create_request,
    create_snapshot,
    empty_ledger,
    expect_recount,
    expect_reserved,
    gpus,
)
from tests.state.simulation.mutant_rules import replace_remaining
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import Scenario
from tests.state.simulation.scenarios import SCENARIOS
from tests.state.simulation.world import World

_SCHEDULES = 25


def test_a_pod_that_bypassed_the_gate_is_drift() -> None:
    before = empty_ledger(used=gpus(1))
    assert compute_drift(before, expect_recount(before, create_snapshot(5, {"u1": 1, "u2": 3}))) == gpus(3)


def test_a_reservation_explains_its_amount_and_no_more() -> None:
    before = expect_reserved(empty_ledger(), create_request(new=2))
    assert not compute_drift(before, expect_recount(before, create_snapshot(5, {"u1": 2})))
    assert compute_drift(before, expect_recount(before, create_snapshot(5, {"u1": 2, "u2": 1}))) == gpus(1)


def test_ended_pods_are_no_drift() -> None:
    before = empty_ledger(used=gpus(3))
    assert not compute_drift(before, expect_recount(before, create_snapshot(5, {})))


def test_the_reservation_of_a_change_explains_its_growth() -> None:
    before = expect_reserved(empty_ledger(used=gpus(1)), create_request(new=3, old=1))
    assert not compute_drift(before, expect_recount(before, create_snapshot(5, {"u1": 3})))


def test_an_initializing_ledger_has_no_drift() -> None:
    before = empty_ledger(initializer="n1")
    assert not compute_drift(before, expect_recount(before, create_snapshot(5, {"u1": 3})))


def test_a_ledger_with_other_namespaces_has_no_drift() -> None:
    before = empty_ledger(namespaces_hash="a")
    assert not compute_drift(
        before, expect_recount(before, create_snapshot(5, {"u1": 3}, members="a,b", ns_revision=4))
    )


def test_a_resource_that_was_not_counted_before_has_no_drift() -> None:
    before = empty_ledger(resources=frozenset({IPS}))
    after = expect_recount(before, create_snapshot(5, {"u1": 3}))
    assert after.used == {GPU: 3}
    assert not compute_drift(before, after)


@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.is_fixed])
def test_no_schedule_with_fixed_policies_and_labels_shows_drift(name: str) -> None:
    for seed in range(_SCHEDULES):
        assert _drifts(SCENARIOS[name], seed) == [], seed


def test_rules_that_lose_reservations_show_drift() -> None:
    rules = replace_remaining(lambda _reservation, _used: None)
    assert any(_drifts(SCENARIOS["resizes"], seed, rules) for seed in range(40))


def _drifts(scenario: Scenario, seed: int, rules: Rules = PRODUCT) -> list[str]:
    """Return the steps of a schedule in which the recount of a ledger found drift."""
    world = World(scenario, rules)
    found: list[str] = []
    for step in scenario.draw(seed):
        before = {key: stored.ledger for key, stored in world.truth.ledgers.items()}
        try:
            line = world.step(step)
        except ViolationError as error:  # the invariants are tested elsewhere
            line = str(error)
        for key, stored in world.truth.ledgers.items():
            earlier = before.get(key)
            if earlier is not None and stored.ledger is not None and compute_drift(earlier, stored.ledger):
                found.append(line)
    return found
