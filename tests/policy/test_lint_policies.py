"""Lint by property and by scale; `cases` has the findings of single files."""

import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity
from tallygate.policy.coverage import (
    classify_pattern,
    find_min_allowed,
    is_allowed_amount,
    namespaces_cover,
    namespaces_overlap,
    resources_cover,
    resources_overlap,
    selector_covers,
    selectors_overlap,
)
from tallygate.policy.lint_policies import lint_policies
from tallygate.policy.matching import matches_labels, matches_namespace, matches_resource
from tallygate.policy.model import AmountBounds
from tallygate.policy.parse import parse
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector
from tests.effort import examples

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-"
NAMES = ("cpu", "a.b/c", "a.b/d", "a.c/c", "kubernetes.io/c", f"{OPAQUE}c", f"{OPAQUE}d", "nota.b/c")
PATTERNS = st.lists(
    st.sampled_from(
        ["*", "a.b/*", "a.b/c", "a.*", "*/c", "extended", "opaque", f"{OPAQUE}*", "cpu", "!a.b/c", "!a.b/*"]
    )
    | st.sampled_from(["!extended", "!opaque", "!*/c", "!cpu"]),
    min_size=1,
    max_size=4,
).map(tuple)


@given(PATTERNS, PATTERNS)
@settings(max_examples=examples(200))
def test_covering_resources_match_every_name_of_the_covered_ones(
    wide: tuple[str, ...], narrow: tuple[str, ...]
) -> None:
    contained = all(matches_resource(wide, name) for name in NAMES if matches_resource(narrow, name))
    assert contained or not resources_cover(wide, narrow)


@given(PATTERNS, PATTERNS)
@settings(max_examples=examples(200))
def test_resources_that_share_a_name_overlap(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    shared = any(matches_resource(one, name) and matches_resource(other, name) for name in NAMES)
    assert resources_overlap(one, other) or not shared


REQUIREMENTS = st.builds(
    LabelRequirement,
    st.sampled_from(["k", "l"]),
    st.sampled_from(list(Operator)),
    st.frozensets(st.sampled_from(["x", "y"]), min_size=1),
)
SELECTORS = st.builds(
    PolicyLabelSelector,
    st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["x", "y"]), max_size=2),
    st.lists(REQUIREMENTS, max_size=3).map(tuple),
)
LABELS = [
    {key: value for key, value in (("k", first), ("l", second)) if value is not None}
    for first, second in product([None, "x", "y", "z"], repeat=2)
]


@given(SELECTORS, SELECTORS)
@settings(max_examples=examples(200))
def test_a_covering_selector_matches_all_labels_of_the_covered_one(
    wide: PolicyLabelSelector, narrow: PolicyLabelSelector
) -> None:
    contained = all(matches_labels(wide, labels) for labels in LABELS if matches_labels(narrow, labels))
    assert contained or not selector_covers(wide, narrow)


@given(SELECTORS, SELECTORS)
@settings(max_examples=examples(200))
def test_selectors_overlap_exactly_if_some_labels_satisfy_both(
    one: PolicyLabelSelector, other: PolicyLabelSelector
) -> None:
    assert selectors_overlap(one, other) is any(
        matches_labels(one, each) and matches_labels(other, each) for each in LABELS
    )


GLOBS = st.lists(st.sampled_from(["a", "b", "ab", "a*", "*b", "*", "?"]), max_size=2).map(tuple)
SELECTIONS = st.none() | st.builds(NamespaceSelector, GLOBS, GLOBS, st.none() | SELECTORS)
NAMESPACES = list(product(["a", "b", "ab", "ba", "aa", "abb"], LABELS))


def _match_all(selection: NamespaceSelector | None) -> list[bool | None]:
    return [matches_namespace(selection, name, labels) for name, labels in NAMESPACES]


@given(SELECTIONS, SELECTIONS)
@settings(max_examples=examples(150))
def test_covering_namespaces_include_all_of_the_covered_ones(
    wide: NamespaceSelector | None, narrow: NamespaceSelector | None
) -> None:
    selections = list(zip(_match_all(wide), _match_all(narrow), strict=True))
    assert all(outer for outer, inner in selections if inner) or not namespaces_cover(wide, narrow)
    assert namespaces_overlap(wide, narrow) or not any(outer and inner for outer, inner in selections)


SMALL = st.integers(0, 12).map(Quantity.from_int)
BOUNDS = st.builds(
    AmountBounds,
    st.none() | SMALL,
    st.none() | SMALL,
    st.none() | SMALL,
    st.lists(SMALL, max_size=3).map(tuple),
)


@given(BOUNDS, BOUNDS)
@settings(max_examples=examples(200))
def test_the_minimum_allowed_amount_is_the_minimum_that_both_allow(one: AmountBounds, other: AmountBounds) -> None:
    whole = [Quantity.from_int(units) for units in range(144)]
    allowed = [amount for amount in whole if is_allowed_amount(one, amount) and is_allowed_amount(other, amount)]
    assert find_min_allowed((one, other)) == (allowed[0] if allowed else None)


@pytest.mark.parametrize(
    ("pattern", "family"),
    [
        ("nvidia.com/*", "extended"),
        ("nvidia.com/gpu", "extended"),
        ("*", None),
        ("*.com/gpu", None),
        ("kubernetes.io/*", "native"),
        (OPAQUE + "*", "opaque"),
        ("pod.alpha.kubernetes.io/*", None),
        ("cpu", "native"),
        ("extended", "extended"),
        ("hugepages-*", None),
    ],
)
def test_a_pattern_of_one_family_is_classified(pattern: str, family: str | None) -> None:
    assert classify_pattern(pattern) == family


def test_an_empty_set_has_no_findings() -> None:
    assert lint_policies(parse([]).policies) == ()


def _rules(number: int, resource: str) -> bytes:
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"
    checks = "checks: {perContainer: {max: 8}}"
    return "---\n".join(
        f"{head}metadata: {{name: r{at}}}\nspec: {{resources: [{resource.format(at)}], {checks}}}\n"
        for at in range(number)
    ).encode()


def test_a_thousand_rules_for_a_thousand_vendors_are_compared_quickly() -> None:
    policies = parse([("a.yaml", _rules(1_000, "v{}.com/*"))]).policies
    started_at = time.process_time()
    assert lint_policies(policies) == ()
    assert time.process_time() - started_at < 2


def test_overlapping_rules_are_all_compared() -> None:
    policies = parse([("a.yaml", _rules(100, '"*.com/gpu"'))]).policies
    found = lint_policies(policies)
    assert [finding.code for finding in found] == ["TG332"] * 99
