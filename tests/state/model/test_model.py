"""The model holds with the rules as they are, and shows what is wrong with others.

Every run searches the small worlds whole, and looks for some wrong rules in the others; `python -m tests.state.model`
searches all of them.
"""

import pytest

from tests.state.model.scenarios import SCENARIOS

_QUICK = sorted(name for name, scenario in SCENARIOS.items() if scenario.quick)
_MOST = 200_000
_SHALLOW = 5_000


@pytest.mark.parametrize("name", _QUICK)
def test_whatever_happens_in_a_small_world_the_rules_hold(name: str) -> None:
    found = SCENARIOS[name].searched(_MOST)
    assert (found.broken, found.whole) == ("", True)


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(_QUICK)))
def test_the_first_steps_in_a_large_world_break_nothing(name: str) -> None:
    found = SCENARIOS[name].searched(_SHALLOW)
    assert (found.broken, found.whole) == ("", False)


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name in _QUICK for wrong in SCENARIOS[name].variants])
def test_a_wrong_rule_breaks_a_small_world(name: str, wrong: str) -> None:
    found = SCENARIOS[name].searched(_MOST, wrong)
    assert found.broken
    assert found.steps


def test_a_guard_that_looks_only_where_the_charge_grows_lets_more_in_than_the_cap_allows() -> None:
    """A change takes its pod for larger than it is; a recount makes its promise larger; its next attempt is let in."""
    found = SCENARIOS["shrunk"].searched(_MOST, "guards_growth")
    assert found.broken == "over: cap 0 allows 3, and 4 are held"
    assert found.steps[-4:] == (
        "the recount at 2 of an observer arrives in cap 0",
        "request 1 (change p → 3) sends its promise to cap 0",
        "the promise of request 1 (change p → 3) arrives in cap 0",
        "request 1 (change p → 3) is stored",
    )
