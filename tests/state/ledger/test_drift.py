"""Drift: amounts that a recount finds without a reservation."""

import pytest

from tallygate.state.ledger.ledger import compute_drift
from tests.gate.simulation.runner import get_policies, list_mixes, simulate
from tests.gate.simulation.transition_mutants import replace_transition
from tests.gate.simulation.world import open_world
from tests.gate.simulation.wrong_transitions import replace_remaining
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

_SCHEDULES = 5
_CHANGES = ("publish", "relabel", "move", "change_class", "create_namespace", "publish_devices", "record", "annotate")
_FIXED = [mix for mix, weights in list_mixes().items() if not any(weights.get(step) for step in _CHANGES)]


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


@pytest.mark.parametrize("mix", _FIXED)
def test_no_schedule_with_fixed_policies_and_labels_shows_drift(mix: str) -> None:
    for seed in range(_SCHEDULES):
        assert _find_drift(mix, seed) == [], seed


def test_rules_that_lose_reservations_show_drift() -> None:
    with replace_transition("recount", replace_remaining(lambda _reservation, _used: None)):
        assert any(_find_drift("changes", seed) for seed in range(40))


def _find_drift(mix: str, seed: int) -> list[str]:
    """Return the steps of a schedule in which the recount of a ledger found drift."""
    found: list[str] = []
    with open_world(get_policies(mix)) as world:
        for step in simulate(mix).draw(seed):
            before = dict(world.truth.ledgers)
            try:
                line = world.step(*step)
            except ViolationError as error:  # the invariants are tested elsewhere
                line = str(error)
            for key, (ledger, _) in world.truth.ledgers.items():
                if key in before and compute_drift(before[key][0], ledger):
                    found.append(line)
    return found
