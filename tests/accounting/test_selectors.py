"""Label selectors: matches, and errors of invalid selectors."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tallygate.accounting.selectors import (
    MATCH_EVERYTHING,
    MATCH_NOTHING,
    Selector,
    SelectorError,
    create_selector,
    parse_selector,
)
from tallygate.objects.meta import LabelSelector

_CONSIST = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _parse(written: Mapping[str, Any] | None) -> Selector:
    return parse_selector(None if written is None else msgspec.convert(written, LabelSelector))


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("written", "labels", "matches"),
    [
        pytest.param(None, {}, False, id="an absent selector matches nothing"),
        pytest.param({}, {}, True, id="an empty selector matches everything"),
        pytest.param({"matchLabels": {}, "matchExpressions": []}, {"a": "1"}, True, id="empty in both halves"),
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True, id="a label"),
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "2"}, False, id="another value"),
        pytest.param({"matchLabels": {"a": "1"}}, {}, False, id="no such label"),
        pytest.param({"matchLabels": {"a": ""}}, {}, False, id="an empty value is not an absent label"),
        pytest.param({"matchLabels": {"a": ""}}, {"a": ""}, True, id="an empty value"),
        pytest.param({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False, id="all labels must be there"),
        pytest.param(_expression("a", "In", "1", "2"), {"a": "2"}, True, id="In"),
        pytest.param(_expression("a", "In", "1", "2"), {"a": "3"}, False, id="not In"),
        pytest.param(_expression("a", "NotIn", "1"), {"a": "2"}, True, id="NotIn"),
        pytest.param(_expression("a", "NotIn", "1"), {}, True, id="NotIn without the label"),
        pytest.param(_expression("a", "NotIn", "1"), {"a": "1"}, False, id="not NotIn"),
        pytest.param(_expression("a", "Exists"), {"a": ""}, True, id="Exists, though empty"),
        pytest.param(_expression("a", "Exists"), {}, False, id="does not exist"),
        pytest.param(_expression("a", "DoesNotExist"), {}, True, id="DoesNotExist"),
        pytest.param(_expression("a", "DoesNotExist"), {"a": ""}, False, id="exists"),
        pytest.param(
            {"matchLabels": {"a": "1"}} | _expression("a", "NotIn", "1"), {"a": "1"}, False, id="contradiction"
        ),
    ],
)
def test_a_selector_matches_labels(
    written: Mapping[str, Any] | None, labels: Mapping[str, str], *, matches: bool
) -> None:
    assert _parse(written).matches(labels) is matches


@pytest.mark.parametrize(
    ("written", "error"),
    [
        pytest.param(
            _expression("a", "in", "1"),
            '"in" is not a valid label selector operator',
            id="operators are spelled exactly",
        ),
        pytest.param(_expression("a", "Gt", "1"), '"Gt" is not a valid label selector operator', id="Gt is for nodes"),
        pytest.param(_expression("a", ""), '"" is not a valid label selector operator', id="no operator"),
        pytest.param(
            _expression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="In without values",
        ),
        pytest.param(
            _expression("a", "Exists", "1"),
            'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
            id="Exists with one",
        ),
        pytest.param(_expression("a b", "Exists"), f'key: Invalid value: "a b": name part {_CONSIST}', id="no key"),
        pytest.param(_expression("a", "In", "x y"), f'values[0][a]: Invalid value: "x y": {_LABEL}', id="no value"),
        pytest.param(
            {"matchLabels": {"a": "-"}}, f'values[0][a]: Invalid value: "-": {_LABEL}', id="no value in matchLabels"
        ),
        pytest.param(
            _expression("", "NotIn", "-"),
            f'[key: Invalid value: "": name part must be non-empty; name part {_CONSIST}, '
            f'values[0][]: Invalid value: "-": {_LABEL}]',
            id="several at once",
        ),
    ],
)
def test_an_invalid_selector_is_an_error(written: Mapping[str, Any], error: str) -> None:
    """Expect the messages of NewRequirement, 1.36."""
    with pytest.raises(SelectorError) as caught:
        _parse(written)
    assert str(caught.value) == error


def test_an_intersection_matches_where_both_selectors_match() -> None:
    both = create_selector({"a": "1"}).intersect(_parse(_expression("b", "Exists")))
    assert [both.matches(each) for each in ({"a": "1", "b": ""}, {"a": "1"}, {"b": ""})] == [True, False, False]
    assert create_selector({}) == MATCH_EVERYTHING
    assert MATCH_NOTHING.intersect(MATCH_EVERYTHING) == MATCH_EVERYTHING.intersect(MATCH_NOTHING) == MATCH_NOTHING


def test_only_a_selector_without_conditions_is_empty() -> None:
    assert MATCH_EVERYTHING.is_empty
    assert not MATCH_NOTHING.is_empty
    assert not create_selector({"a": ""}).is_empty


def test_required_labels_need_not_be_valid() -> None:
    assert create_selector({"a": "x y"}).matches({"a": "x y"})
