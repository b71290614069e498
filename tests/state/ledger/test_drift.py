"""What recounts find that nobody was promised."""

import pytest

from tests.state.ledger.ledgers import GPU, IPS, empty, gpus, granted, recounted, view, wants
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import SCENARIOS, Scenario
from tests.state.simulation.variants import VARIANTS
from tests.state.simulation.violation import ViolationError
from tests.state.simulation.world import World
from webhook.state.ledger.ledger import compute_drift

_SCHEDULES = 25


def test_a_pod_that_came_past_the_gate_is_drift() -> None:
    before = empty(used=gpus(1))
    assert compute_drift(before, recounted(before, view(5, {"u1": 1, "u2": 3}))) == gpus(3)


def test_a_promise_explains_what_it_promised_and_no_more() -> None:
    before = granted(empty(), wants(new=2))
    assert not compute_drift(before, recounted(before, view(5, {"u1": 2})))
    assert compute_drift(before, recounted(before, view(5, {"u1": 2, "u2": 1}))) == gpus(1)


def test_pods_that_end_are_no_drift() -> None:
    before = empty(used=gpus(3))
    assert not compute_drift(before, recounted(before, view(5, {})))


def test_a_change_explains_what_it_added() -> None:
    before = granted(empty(used=gpus(1)), wants(new=3, old=1))
    assert not compute_drift(before, recounted(before, view(5, {"u1": 3})))


def test_nothing_is_said_of_a_ledger_whose_past_is_not_known() -> None:
    before = empty(initializer="n1")
    assert not compute_drift(before, recounted(before, view(5, {"u1": 3})))


def test_nothing_is_said_where_other_namespaces_draw_on_it_now() -> None:
    before = empty(namespaces_hash="a")
    assert not compute_drift(before, recounted(before, view(5, {"u1": 3}, members="a,b", ns_revision=4)))


def test_a_name_that_was_not_counted_before_has_not_drifted() -> None:
    before = empty(resources=frozenset({IPS}))
    after = recounted(before, view(5, {"u1": 3}))
    assert after.used == {GPU: 3}
    assert not compute_drift(before, after)


@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.fixed])
def test_where_policies_and_labels_stay_no_schedule_shows_drift(name: str) -> None:
    for seed in range(_SCHEDULES):
        assert _drifts(SCENARIOS[name], seed) == [], seed


def test_rules_that_lose_promises_show_drift() -> None:
    variant = VARIANTS["settle_on_sight"]
    assert any(_drifts(variant.scenario, seed, variant.rules) for seed in range(variant.seed, variant.seed + 40))


def _drifts(scenario: Scenario, seed: int, rules: Rules = PRODUCT) -> list[str]:
    """The steps of a schedule in which some ledger's recount found drift."""
    world = World(scenario, rules)
    found: list[str] = []
    for step in scenario.schedule(seed):
        before = {key: book.ledger for key, book in world.cluster.books.items()}
        try:
            did = world.step(step)
        except ViolationError as error:  # what wrong rules break at once is not the subject
            did = str(error)
        for key, book in world.cluster.books.items():
            known = before.get(key)
            if known is not None and book.ledger is not None and compute_drift(known, book.ledger):
                found.append(did)
    return found
