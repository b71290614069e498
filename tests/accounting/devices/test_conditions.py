"""The conditions of selectors, and the comparisons that they make."""

import pytest

from tallygate.accounting.devices.conditions import find_comparison, split_conditions

MODEL, MEMORY = 'device.attributes["d.com"].model', 'device.capacity["d.com"].memory'
VERSION = 'device.attributes["d.com"].version'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("true", ["true"], id="one condition is itself"),
        pytest.param("a() && b()  &&\nc()", ["a()", "b()", "c()"], id="several lines are split at each sign"),
        pytest.param("(a && (b && c)) && d", ["a", "b", "c", "d"], id="brackets are opened"),
        pytest.param(" ( a &&b ) ", ["a", "b"], id="brackets around everything are opened"),
        pytest.param("a || b && c", ["a || b && c"], id="an alternative is one condition"),
        pytest.param("(a || b) && c", ["(a || b)", "c"], id="an alternative in brackets is one of several"),
        pytest.param("a ? b && c : d", ["a ? b && c : d"], id="a choice is one condition"),
        pytest.param("'&&' == x && y[\"(\"]", ["'&&' == x", 'y["("]'], id="signs in texts do not count"),
        pytest.param("x.all(y, y && z) && !(a && b)", ["x.all(y, y && z)", "!(a && b)"], id="loops and negations stay"),
    ],
)
def test_a_selector_is_split_at_its_joints(text: str, expected: list[str]) -> None:
    assert split_conditions(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f'{MODEL} == "h200"', "attributes d.com model == h200", id="an attribute equals a text"),
        pytest.param(f'"h200" == {MODEL}', "attributes d.com model == h200", id="the constant may stand first"),
        pytest.param(f'!({MODEL} == "h200")', "attributes d.com model != h200", id="a negation"),
        pytest.param('device.attributes["d.com"]["model"] != "a"', "attributes d.com model != a", id="an index"),
        pytest.param(f'{MODEL} in ["a", "b"]', "attributes d.com model in a b", id="a list"),
        pytest.param(
            'device.attributes[?"d.com"].?model.orValue("") == "a"', "attributes d.com model == a", id="a default"
        ),
        pytest.param('device.attributes["d.com"].cores > 4', "attributes d.com cores > 4", id="an order"),
        pytest.param('4 > device.attributes["d.com"].cores', "attributes d.com cores < 4", id="a flipped order"),
        pytest.param('device.attributes["d.com"].shared', "attributes d.com shared == true", id="a truth"),
        pytest.param('!device.attributes["d.com"].shared', "attributes d.com shared == false", id="a falsehood"),
        pytest.param(f"has({MODEL})", "attributes d.com model has", id="a test of presence"),
        pytest.param(f'{MEMORY}.compareTo(quantity("80Gi")) >= 0', "capacity d.com memory >= 80Gi", id="a quantity"),
        pytest.param(f'0 >= {MEMORY}.compareTo(quantity("80Gi"))', "capacity d.com memory <= 80Gi", id="0 first"),
        pytest.param(f'!{MEMORY}.isLessThan(quantity("1Gi"))', "capacity d.com memory >= 1Gi", id="not less"),
        pytest.param(f'{MEMORY} == quantity("1Gi")', "capacity d.com memory == 1Gi", id="an equal quantity"),
        pytest.param(f'{VERSION}.isGreaterThan(semver("1.2.3"))', "attributes d.com version > 1.2.3", id="a version"),
        pytest.param('device.driver == "d.com"', "driver == d.com", id="the driver"),
        pytest.param("device.allowMultipleAllocations", "allowMultipleAllocations == true", id="a shared device"),
        pytest.param(f"{MODEL} == {VERSION}", "", id="two attributes"),
        pytest.param(f'{MODEL}.startsWith("h")', "", id="a function of a text"),
        pytest.param(f'{MEMORY}.compareTo(quantity("80Gi")) > 1', "", id="an order with another number than 0"),
        pytest.param(f'{MEMORY}.compareTo(quantity("x")) > 0', "", id="no quantity"),
        pytest.param('device.attributes["d.com"].size() > 1', "", id="a number of attributes"),
        pytest.param(f'{MODEL} in ["a", {VERSION}]', "", id="a list with an attribute"),
        pytest.param(f'!({MODEL} in ["a"])', "", id="a negated list"),
        pytest.param('"d.com" in device.attributes', "", id="a test of a domain"),
    ],
)
def test_a_comparison_is_read_from_the_syntax_tree(text: str, expected: str) -> None:
    found = find_comparison(text)
    parts = [] if found is None else [*found.field, found.operator, *(each.text for each in found.constants)]
    assert " ".join(filter(None, parts)) == expected
