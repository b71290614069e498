"""The rules hold in the model, and each mutant violates an invariant.

Every test run searches the small worlds completely, and the first states of the others; `python -m tests.state.model`
searches all of them.
"""

import pytest

from tests.state.model.scenarios import SCENARIOS

_SMALL = sorted(name for name, scenario in SCENARIOS.items() if scenario.is_small)
_MAX_STATES = 200_000
_FIRST_STATES = 5_000


@pytest.mark.parametrize("name", _SMALL)
def test_the_rules_hold_in_every_state_of_a_small_world(name: str) -> None:
    result = SCENARIOS[name].search(_MAX_STATES)
    assert (result.violation, result.is_complete) == ("", True)


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(_SMALL)))
def test_the_rules_hold_in_the_first_states_of_a_large_world(name: str) -> None:
    result = SCENARIOS[name].search(_FIRST_STATES)
    assert (result.violation, result.is_complete) == ("", False)


@pytest.mark.parametrize(("name", "mutant"), [(name, each) for name in _SMALL for each in SCENARIOS[name].mutants])
def test_a_mutant_violates_an_invariant_in_a_small_world(name: str, mutant: str) -> None:
    result = SCENARIOS[name].search(_MAX_STATES, mutant)
    assert result.violation
    assert result.story


def test_a_check_of_the_limit_only_where_the_charge_grows_allows_more_than_the_cap() -> None:
    """Let a recount increase the reservation of a change that read a stale pod; its next attempt is not checked."""
    result = SCENARIOS["shrunk"].search(_MAX_STATES, "guards_growth")
    assert result.violation == "over: cap 0 allows 3, and 4 are used"
    assert result.story[-4:] == (
        "the recount at 2 of an observer arrives in cap 0",
        "request 1 (change p → 3) sends its reservation to cap 0",
        "the reservation of request 1 (change p → 3) arrives in cap 0",
        "request 1 (change p → 3) is stored",
    )
