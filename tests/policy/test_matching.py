"""Matching of resources, labels, namespaces and subjects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.names import classify_name
from tallygate.policy.matching import (
    PatternIndex,
    includes_resource,
    matches_labels,
    matches_namespace,
    matches_resource,
    matches_subjects,
)
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector, Subjects

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-"

RESOURCES: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "a name is itself": (("nvidia.com/gpu",), "nvidia.com/gpu", True),
    "a name is no prefix": (("nvidia.com/gpu",), "nvidia.com/gpu.shared", False),
    "a name is no suffix": (("gpu",), "nvidia.com/gpu", False),
    "case counts": (("nvidia.com/gpu",), "nvidia.com/GPU", False),
    "a star takes any run": (("nvidia.com/*",), "nvidia.com/mig-1g.5gb", True),
    "a star takes nothing": (("nvidia.com/gpu*",), "nvidia.com/gpu", True),
    "a star crosses the slash": (("*gpu",), "nvidia.com/gpu", True),
    "a lone star takes even the malformed": (("*",), "Bad_Name!", True),
    "a lone star takes the empty name": (("*",), "", True),
    "a star takes a line break": (("*",), "a\nb", True),
    "a question mark takes one": (("a.b/?",), "a.b/c", True),
    "a question mark takes not two": (("a.b/?",), "a.b/cd", False),
    "a dot is a dot": (("a.b/c",), "axb/c", False),
    "extended is a vendor's": (("extended",), "nvidia.com/gpu", True),
    "extended is not opaque": (("extended",), OPAQUE + "foo", False),
    "extended is not native": (("extended",), "cpu", False),
    "extended is not kubernetes.io": (("extended",), "kubernetes.io/x", False),
    "extended is outside kubernetes.io however alike": (("extended",), "notkubernetes.io/gpu", True),
    "opaque is by its prefix": (("opaque",), OPAQUE + "foo", True),
    "opaque is no other name": (("opaque",), "example.com/foo", False),
    "extended as a glob part is no family": (("extended*",), "nvidia.com/gpu", False),
    "an exclusion after": (("nvidia.com/*", "!nvidia.com/gpu"), "nvidia.com/gpu", False),
    "an exclusion before": (("!nvidia.com/gpu", "nvidia.com/*"), "nvidia.com/gpu", False),
    "an exclusion of others": (("nvidia.com/*", "!amd.com/*"), "nvidia.com/gpu", True),
    "an exclusion of a family": (("*", "!extended"), "nvidia.com/gpu", False),
    "what a family's exclusion leaves": (("*", "!extended"), "cpu", True),
    "an exclusion alone includes nothing": (("!cpu",), "memory", False),
    "no pattern at all": ((), "cpu", False),
    "a very long name is matched all the same": (("a.b/*",), "a.b/" + "x" * 10_000, True),
}


@pytest.mark.parametrize(("patterns", "name", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_patterns_match_a_resource(patterns: tuple[str, ...], name: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert matches_resource(patterns, name) is expected


_PATTERNS = sorted({pattern for patterns, _, _ in RESOURCES.values() for pattern in patterns})
_NAMES = sorted({name for _, name, _ in RESOURCES.values()})


@given(st.lists(st.lists(st.sampled_from(_PATTERNS), max_size=4), max_size=4), st.sampled_from(_NAMES))
def test_an_index_of_patterns_matches_as_each_list_of_patterns_does(rules: list[list[str]], name: str) -> None:
    index = PatternIndex(pattern for patterns in rules for pattern in patterns)
    matching = index.find_matching(name, classify_name(name))
    for patterns in rules:
        assert includes_resource(tuple(patterns), matching) is matches_resource(tuple(patterns), name)


@given(
    st.lists(st.sampled_from(["*", "a*", "*b", "?", "ab", "!a", "!*a", "!b*"]), max_size=5), st.text("ab", max_size=3)
)
def test_the_order_of_patterns_does_not_matter(patterns: list[str], name: str) -> None:
    assert matches_resource(tuple(patterns), name) is matches_resource(tuple(reversed(patterns)), name)


def test_many_stars_do_not_backtrack() -> None:
    """Match a pattern of many stars on a long name that barely fails."""
    assert not matches_resource(("*a" * 60 + "b",), "a" * 5_000)


def _selector(*expressions: tuple[str, str, set[str]], **labels: str) -> PolicyLabelSelector:
    requirements = tuple(LabelRequirement(key, Operator(op), frozenset(values)) for key, op, values in expressions)
    return PolicyLabelSelector(labels, requirements)


LABELS: dict[str, tuple[PolicyLabelSelector, dict[str, str], bool]] = {
    "an empty selector takes everything": (_selector(), {}, True),
    "a label that exists": (_selector(a="b"), {"a": "b", "c": "d"}, True),
    "a label with another value": (_selector(a="b"), {"a": "c"}, False),
    "a label that is missing": (_selector(a="b"), {}, False),
    "an empty value is not a missing key": (_selector(a=""), {}, False),
    "all labels must match": (_selector(a="b", c="d"), {"a": "b"}, False),
    "In matches one of its values": (_selector(("a", "In", {"b", "c"})), {"a": "c"}, True),
    "In fails on another value": (_selector(("a", "In", {"b", "c"})), {"a": "d"}, False),
    "In fails on a missing key": (_selector(("a", "In", {"b"})), {}, False),
    "NotIn fails on its values": (_selector(("a", "NotIn", {"b"})), {"a": "b"}, False),
    "NotIn matches other values": (_selector(("a", "NotIn", {"b"})), {"a": "c"}, True),
    "NotIn matches a missing key": (_selector(("a", "NotIn", {"b"})), {}, True),
    "Exists matches any value": (_selector(("a", "Exists", set())), {"a": ""}, True),
    "Exists fails on a missing key": (_selector(("a", "Exists", set())), {"b": "c"}, False),
    "DoesNotExist matches a missing key": (_selector(("a", "DoesNotExist", set())), {}, True),
    "DoesNotExist fails on any value": (_selector(("a", "DoesNotExist", set())), {"a": ""}, False),
    "all expressions must match": (_selector(("a", "Exists", set()), ("b", "Exists", set())), {"a": "1"}, False),
    "labels and expressions together": (_selector(("a", "Exists", set()), b="c"), {"a": "1", "b": "c"}, True),
}


@pytest.mark.parametrize(("selector", "labels", "expected"), LABELS.values(), ids=LABELS)
def test_a_selector_matches_labels(selector: PolicyLabelSelector, labels: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert matches_labels(selector, labels) is expected


def test_missing_labels_are_no_labels_and_a_missing_selector_matches_all() -> None:
    assert matches_labels(None, None) is True
    assert matches_labels(_selector(a="b"), None) is False
    assert matches_labels(_selector(("a", "DoesNotExist", set())), None) is True


YES = _selector(gpu="yes")
NAMESPACES: dict[str, tuple[NamespaceSelector | None, str, dict[str, str] | None, bool | None]] = {
    "no selection is every namespace": (None, "a", None, True),
    "an empty selection is every namespace": (NamespaceSelector(), "a", None, True),
    "included by name": (NamespaceSelector(include=("a",)), "a", None, True),
    "included by glob": (NamespaceSelector(include=("team-*",)), "team-a", None, True),
    "not included": (NamespaceSelector(include=("team-*",)), "other", None, False),
    "excluded": (NamespaceSelector(include=("team-*",), exclude=("team-infra",)), "team-infra", None, False),
    "excluded alone": (NamespaceSelector(exclude=("kube-*",)), "kube-system", None, False),
    "not excluded": (NamespaceSelector(exclude=("kube-*",)), "default", None, True),
    "labels that match": (NamespaceSelector(selector=YES), "a", {"gpu": "yes"}, True),
    "labels that do not match": (NamespaceSelector(selector=YES), "a", {}, False),
    "labels that are unknown": (NamespaceSelector(selector=YES), "a", None, None),
    "the name decides before unknown labels": (NamespaceSelector(exclude=("a",), selector=YES), "a", None, False),
    "the name is no answer alone": (NamespaceSelector(include=("a",), selector=YES), "a", None, None),
    "an empty selector needs no labels": (NamespaceSelector(selector=PolicyLabelSelector()), "a", None, True),
}


@pytest.mark.parametrize(("selector", "name", "labels", "expected"), NAMESPACES.values(), ids=NAMESPACES)
def test_a_selection_matches_a_namespace(
    selector: NamespaceSelector | None,
    name: str,
    labels: dict[str, str] | None,
    expected: bool | None,  # noqa: FBT001 - a table's column
) -> None:
    assert matches_namespace(selector, name, labels) is expected


CI = "system:serviceaccount:ci:deployer"
SUBJECTS: dict[str, tuple[Subjects, str, tuple[str, ...], bool]] = {
    "empty subjects match no user": (Subjects(), "alice", ("system:authenticated",), False),
    "a user by name": (Subjects(users=("alice",)), "alice", (), True),
    "a user by glob": (Subjects(users=("system:node:*",)), "system:node:n1", (), True),
    "a user is no group": (Subjects(users=("admins",)), "alice", ("admins",), False),
    "a group among others": (Subjects(groups=("admins",)), "alice", ("a", "admins"), True),
    "a group by glob": (Subjects(groups=("team-*",)), "alice", ("team-a",), True),
    "a group that one is not in": (Subjects(groups=("admins",)), "alice", ("a",), False),
    "a service account": (Subjects(service_accounts=("ci/deployer",)), CI, (), True),
    "a service account by glob": (Subjects(service_accounts=("ci/*",)), CI, (), True),
    "any namespace's account": (Subjects(service_accounts=("*/deployer",)), CI, (), True),
    "another namespace's account": (Subjects(service_accounts=("prod/deployer",)), CI, (), False),
    "a glob for names stays in its namespace": (
        Subjects(service_accounts=("c/*",)),
        "system:serviceaccount:c:i:x",
        (),
        False,
    ),
    "a user name that looks like an account": (Subjects(service_accounts=("ci/deployer",)), "ci/deployer", (), False),
    "an account named as a user": (Subjects(users=(CI,)), CI, (), True),
    "a prefix without a name": (Subjects(service_accounts=("*/*",)), "system:serviceaccount:ci", (), False),
}


@pytest.mark.parametrize(("subjects", "user", "groups", "expected"), SUBJECTS.values(), ids=SUBJECTS)
def test_subjects_match_a_user(subjects: Subjects, user: str, groups: tuple[str, ...], expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert matches_subjects(subjects, user, groups) is expected
