"""Sets of namespaces by labels: as exact as the selectors that they are made of."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.selectors import parse_selector
from tallygate.admission.namespace_sets import (
    EVERY_NAMESPACE,
    NamespaceSet,
    create_namespace_set,
    format_requirements,
    intersect,
    read_namespace_set,
    subtract,
    subtract_all,
)
from tallygate.objects.meta import LabelSelector, SelectorRequirement
from tallygate.policy.matching import matches_labels
from tallygate.policy.selectors import LabelRequirement, Operator, PolicyLabelSelector

_VALUES = ("", "a", "b", "c")
_KEYS = ("team", "tier")
_LABELS = st.fixed_dictionaries({}, optional=dict.fromkeys(_KEYS, st.sampled_from([*_VALUES, "other"])))
_REQUIREMENTS = st.builds(
    lambda key, operator, values: LabelRequirement(
        key, operator, values if operator in {Operator.IN, Operator.NOT_IN} else frozenset()
    ),
    st.sampled_from(_KEYS),
    st.sampled_from(Operator),
    st.frozensets(st.sampled_from(_VALUES), min_size=1),
)
_SELECTORS = st.builds(
    PolicyLabelSelector,
    st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=1),
    st.lists(_REQUIREMENTS, max_size=3).map(tuple),
)


def _has(namespaces: NamespaceSet | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels are in a set, by the selector that is written for it."""
    if namespaces is None:
        return False
    return parse_selector(LabelSelector(match_expressions=format_requirements(namespaces))).matches(labels)


@given(_SELECTORS, _LABELS)
def test_a_set_has_the_namespaces_of_its_selector(selector: PolicyLabelSelector, labels: dict[str, str]) -> None:
    namespaces = create_namespace_set(selector)
    assert _has(namespaces, labels) == matches_labels(selector, labels)
    if namespaces is not None:
        assert read_namespace_set(LabelSelector(match_expressions=format_requirements(namespaces))) == namespaces
    assert _has(create_namespace_set(selector, "team"), labels) == (
        matches_labels(selector, labels) and "team" in labels
    )


@given(_SELECTORS, _SELECTORS, _LABELS)
def test_what_is_left_of_a_set_is_in_one_of_disjoint_sets(
    first: PolicyLabelSelector, second: PolicyLabelSelector, labels: dict[str, str]
) -> None:
    whole, part = create_namespace_set(first), create_namespace_set(second)
    if whole is None or part is None:
        return
    is_first, is_second = matches_labels(first, labels), matches_labels(second, labels)
    assert _has(intersect(whole, part), labels) == (is_first and is_second)
    assert sum(_has(rest, labels) for rest in subtract(whole, part)) == (is_first and not is_second)


@given(st.lists(_SELECTORS, max_size=4), _LABELS)
def test_what_is_left_of_all_namespaces_is_in_no_set(
    selectors: list[PolicyLabelSelector], labels: dict[str, str]
) -> None:
    parts = [part for selector in selectors if (part := create_namespace_set(selector)) is not None]
    rest = subtract_all(EVERY_NAMESPACE, parts)
    assert sum(_has(each, labels) for each in rest) == (not any(matches_labels(each, labels) for each in selectors))


def test_a_stored_selector_of_another_form_is_read() -> None:
    """Leave out what no gate writes: the set is larger then."""
    selector = LabelSelector({"team": "a"}, [SelectorRequirement("tier", "Newer", ["x"])])
    assert read_namespace_set(selector) == create_namespace_set(PolicyLabelSelector({"team": "a"}))
