"""Coverage and overlap of patterns, namespaces and matches: the cases of users, by name."""

import pytest

from tallygate.accounting.quantity import Quantity
from tallygate.policy.coverage import (
    can_share_request,
    find_min_allowed,
    is_allowed_amount,
    is_countable_pattern,
    is_every_user,
    list_excluded,
    list_included,
    match_covers,
    namespaces_cover,
    namespaces_overlap,
    pattern_covers,
    patterns_overlap,
    resources_cover,
    resources_overlap,
)
from tallygate.policy.model import AmountBounds, Match
from tallygate.policy.selectors import NamespaceSelector, PolicyLabelSelector, Subjects

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-"

PATTERNS: dict[str, tuple[str, str, bool, bool]] = {
    # wide, narrow, covers, overlaps
    "everything covers a family": ("*", "extended", True, True),
    "everything covers the other family": ("*", "opaque", True, True),
    "a family covers itself": ("extended", "extended", True, True),
    "a family covers no other": ("extended", "opaque", False, False),
    "extended covers a vendor": ("extended", "nvidia.com/*", True, True),
    "extended covers a name": ("extended", "nvidia.com/gpu", True, True),
    "extended covers no native name": ("extended", "cpu", False, False),
    "extended covers no name of kubernetes.io": ("extended", "kubernetes.io/*", False, False),
    "extended overlaps any domain": ("extended", "*.com/gpu", False, True),
    "extended is not all of everything": ("extended", "*", False, True),
    "extended overlaps no opaque name": ("extended", f"{OPAQUE}foo", False, False),
    "opaque covers its own": ("opaque", f"{OPAQUE}foo", True, True),
    "opaque covers its own globs": ("opaque", f"{OPAQUE}foo-*", True, True),
    "the prefix with a star covers opaque": (f"{OPAQUE}*", "opaque", True, True),
    "a part of opaque covers not all": (f"{OPAQUE}foo-*", "opaque", False, True),
    "the domain with a star covers opaque": ("pod.alpha.kubernetes.io/*", "opaque", True, True),
    "any qualified name covers extended": ("*/*", "extended", True, True),
    "a vendor covers not all extended": ("nvidia.com/*", "extended", False, True),
    "a vendor covers its name": ("nvidia.com/*", "nvidia.com/gpu", True, True),
    "a vendor covers no other": ("nvidia.com/*", "amd.com/gpu", False, False),
    "a native name does not overlap opaque": ("opaque", "memory", False, False),
}


@pytest.mark.parametrize(("wide", "narrow", "covers", "overlaps"), PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_covers_and_overlaps_another(wide: str, narrow: str, covers: bool, overlaps: bool) -> None:  # noqa: FBT001 - columns of a table
    assert pattern_covers(wide, narrow) is covers
    assert patterns_overlap(wide, narrow) is overlaps
    assert patterns_overlap(narrow, wide) is overlaps


LISTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool, bool]] = {
    "each part somewhere": (("nvidia.com/*", "amd.com/*"), ("amd.com/gpu", "nvidia.com/gpu"), True, True),
    "one part nowhere": (("nvidia.com/*",), ("amd.com/gpu", "nvidia.com/gpu"), False, True),
    "a hole in the wide one": (("*", "!nvidia.com/*"), ("nvidia.com/gpu",), False, False),
    "a hole beside the narrow one": (("*", "!amd.com/*"), ("nvidia.com/gpu",), True, True),
    "the same hole in both": (("*", "!amd.com/*"), ("extended", "!amd.com/*"), True, True),
    "a larger hole in the narrow one": (("*", "!amd.com/gpu"), ("extended", "!amd.com/*"), True, True),
    "a smaller hole in the narrow one": (("*", "!amd.com/*"), ("extended", "!amd.com/gpu"), False, True),
    "a family as a hole": (("*", "!extended"), ("nvidia.com/gpu",), False, False),
    "what is left of a family's hole": (("*", "!extended"), ("cpu",), True, True),
}


@pytest.mark.parametrize(("wide", "narrow", "covers", "overlaps"), LISTS.values(), ids=LISTS)
def test_a_list_of_patterns_covers_and_overlaps_another(
    wide: tuple[str, ...],
    narrow: tuple[str, ...],
    covers: bool,  # noqa: FBT001 - columns of a table
    overlaps: bool,  # noqa: FBT001 - columns of a table
) -> None:
    assert resources_cover(wide, narrow) is covers
    assert resources_overlap(wide, narrow) is resources_overlap(narrow, wide) is overlaps


def test_a_list_is_split_into_included_and_excluded_patterns() -> None:
    patterns = ("!a.b/c", "a.b/*", "extended", "!opaque")
    assert list_included(patterns) == ("a.b/*", "extended")
    assert list_excluded(patterns) == ("a.b/c", "opaque")


@pytest.mark.parametrize(
    ("pattern", "countable"),
    [
        ("extended", True),
        ("opaque", True),
        ("nvidia.com/gpu", True),
        ("nvidia.com/*", True),
        (f"{OPAQUE}*", True),
        ("cpu", False),
        ("*", False),
        ("*/gpu", False),
        ("kubernetes.io/x", False),
        ("hugepages-2Mi", False),
    ],
)
def test_a_pattern_is_countable_if_all_its_resources_are(pattern: str, countable: bool) -> None:  # noqa: FBT001 - a column
    assert is_countable_pattern(pattern) is countable


def _select(*include: str, exclude: tuple[str, ...] = (), **labels: str) -> NamespaceSelector:
    return NamespaceSelector(include, exclude, PolicyLabelSelector(labels) if labels else None)


NAMESPACES: dict[str, tuple[NamespaceSelector | None, NamespaceSelector | None, bool, bool]] = {
    "all cover all": (None, None, True, True),
    "all cover some": (None, _select("a"), True, True),
    "some cover not all": (_select("a"), None, False, True),
    "a star is all": (_select("*"), None, True, True),
    "a glob covers its names": (_select("team-*"), _select("team-a", "team-b"), True, True),
    "names cover no glob": (_select("team-a", "team-b"), _select("team-*"), False, True),
    "other names": (_select("a"), _select("b"), False, False),
    "one excludes a name": (_select(exclude=("a",)), _select("a"), False, False),
    "both exclude a name": (_select(exclude=("a",)), _select(exclude=("a", "b")), True, True),
    "labels narrow": (_select("a"), _select("a", gpu="yes"), True, True),
    "labels are required": (_select("a", gpu="yes"), _select("a"), False, True),
    "other labels": (_select(gpu="yes"), _select(gpu="no"), False, False),
    "labels of other keys": (_select(gpu="yes"), _select(team="a"), False, True),
}


@pytest.mark.parametrize(("wide", "narrow", "covers", "overlaps"), NAMESPACES.values(), ids=NAMESPACES)
def test_a_namespace_selection_covers_and_overlaps_another(
    wide: NamespaceSelector | None,
    narrow: NamespaceSelector | None,
    covers: bool,  # noqa: FBT001 - columns of a table
    overlaps: bool,  # noqa: FBT001 - columns of a table
) -> None:
    assert namespaces_cover(wide, narrow) is covers
    assert namespaces_overlap(wide, narrow) is namespaces_overlap(narrow, wide) is overlaps


def test_an_empty_match_covers_every_match() -> None:
    narrow = Match(_select("a"), frozenset({"Pod"}), PolicyLabelSelector({"a": "b"}), Subjects(users=("x",)))
    assert match_covers(Match(), narrow)
    assert not match_covers(narrow, Match())
    assert can_share_request(Match(), narrow)


def test_matches_of_different_kinds_never_share_a_request() -> None:
    assert not can_share_request(Match(kinds=frozenset({"Pod"})), Match(kinds=frozenset({"Node"})))
    assert can_share_request(Match(kinds=frozenset({"Pod", "Node"})), Match(kinds=frozenset({"Node"})))


@pytest.mark.parametrize(
    ("subjects", "is_everyone"),
    [
        (Subjects(), False),
        (Subjects(users=("*",)), True),
        (Subjects(users=("a*",)), False),
        (Subjects(groups=("*",)), True),
        (Subjects(groups=("system:*",)), True),
        (Subjects(groups=("system:authenticated",)), True),
        (Subjects(groups=("system:nodes",)), False),
        (Subjects(service_accounts=("*/*",)), False),
    ],
)
def test_subjects_are_every_user(subjects: Subjects, is_everyone: bool) -> None:  # noqa: FBT001 - a column
    assert is_every_user(subjects) is is_everyone


def _bounds(minimum: str = "", maximum: str = "", multiple: str = "", *one_of: str) -> AmountBounds:
    low, high, unit = (Quantity.parse(text) if text else None for text in (minimum, maximum, multiple))
    return AmountBounds(low, high, unit, tuple(Quantity.parse(text) for text in one_of))


ALLOWED: dict[str, tuple[AmountBounds, str, bool]] = {
    "no bound at all": (_bounds(), "5", True),
    "at the minimum": (_bounds("5"), "5", True),
    "below the minimum": (_bounds("5"), "4999m", False),
    "at the maximum": (_bounds("", "5"), "5000m", True),
    "above the maximum": (_bounds("", "5"), "5001m", False),
    "a multiple": (_bounds("", "", "2"), "4", True),
    "no multiple": (_bounds("", "", "2"), "3", False),
    "a multiple of a fraction": (_bounds("", "", "500m"), "1500m", True),
    "a multiple of less than a thousandth": (_bounds("", "", "1500u"), "3m", True),
    "no multiple of less than a thousandth": (_bounds("", "", "100u"), "50u", False),
    "nothing is a multiple of nothing": (_bounds("", "", "0"), "4", False),
    "one of them by number": (_bounds("", "", "", "1", "2Ki"), "2048", True),
    "none of them": (_bounds("", "", "", "1", "2"), "3", False),
    "one of them but too much": (_bounds("", "1", "", "1", "2"), "2", False),
}


@pytest.mark.parametrize(("bounds", "amount", "allowed"), ALLOWED.values(), ids=ALLOWED)
def test_bounds_allow_an_amount(bounds: AmountBounds, amount: str, allowed: bool) -> None:  # noqa: FBT001 - a column
    assert is_allowed_amount(bounds, Quantity.parse(amount)) is allowed


MINIMA: dict[str, tuple[tuple[AmountBounds, ...], str | None]] = {
    "no bound": ((_bounds(),), "0"),
    "the minimum": ((_bounds("3"),), "3"),
    "the larger minimum": ((_bounds("3"), _bounds("5")), "5"),
    "the next multiple": ((_bounds("3", "", "4"),), "4"),
    "a common multiple": ((_bounds("1", "", "4"), _bounds("", "", "6")), "12"),
    "a common multiple of less than a thousandth": ((_bounds("1m", "", "1500u"), _bounds("", "", "1m")), "3m"),
    "the next multiple of less than a thousandth": ((_bounds("1u", "", "100u"),), "100u"),
    "a common multiple too large": ((_bounds("1", "11", "4"), _bounds("", "", "6")), None),
    "the least choice": ((_bounds("", "", "", "8", "2", "4"),), "2"),
    "the least choice of both": ((_bounds("", "", "", "1", "2", "4"), _bounds("2", "", "", "4", "8")), "4"),
    "no choice of both": ((_bounds("", "", "", "1"), _bounds("", "", "", "2")), None),
    "minimum above maximum": ((_bounds("3"), _bounds("", "2")), None),
    "minimum at the maximum": ((_bounds("3"), _bounds("", "3")), "3"),
}


@pytest.mark.parametrize(("every", "minimum"), MINIMA.values(), ids=MINIMA)
def test_the_minimum_that_bounds_allow(every: tuple[AmountBounds, ...], minimum: str | None) -> None:
    assert find_min_allowed(every) == (None if minimum is None else Quantity.parse(minimum))
    assert find_min_allowed(every[::-1]) == find_min_allowed(every)
