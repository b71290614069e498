"""What covers what, and what may meet: the cases that people write, by name."""

import pytest

from webhook.accounting.quantity import Quantity
from webhook.policy.coverage import (
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
from webhook.policy.model import AmountBounds, Match, NamespaceSelector, PolicyLabelSelector, Subjects

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-"

PATTERNS: dict[str, tuple[str, str, bool, bool]] = {
    # wide, narrow, whether it covers, whether they meet
    "everything covers a family": ("*", "extended", True, True),
    "everything covers the other family": ("*", "opaque", True, True),
    "a family covers itself": ("extended", "extended", True, True),
    "a family covers no other": ("extended", "opaque", False, False),
    "extended covers a vendor": ("extended", "nvidia.com/*", True, True),
    "extended covers a name": ("extended", "nvidia.com/gpu", True, True),
    "extended covers no native name": ("extended", "cpu", False, False),
    "extended covers no name of kubernetes.io": ("extended", "kubernetes.io/*", False, False),
    "extended meets any domain": ("extended", "*.com/gpu", False, True),
    "extended is not all of everything": ("extended", "*", False, True),
    "extended meets no opaque name": ("extended", f"{OPAQUE}foo", False, False),
    "opaque covers its own": ("opaque", f"{OPAQUE}foo", True, True),
    "opaque covers its own globs": ("opaque", f"{OPAQUE}foo-*", True, True),
    "the prefix with a star covers opaque": (f"{OPAQUE}*", "opaque", True, True),
    "a part of opaque covers not all": (f"{OPAQUE}foo-*", "opaque", False, True),
    "the domain with a star covers opaque": ("pod.alpha.kubernetes.io/*", "opaque", True, True),
    "any qualified name covers extended": ("*/*", "extended", True, True),
    "a vendor covers not all extended": ("nvidia.com/*", "extended", False, True),
    "a vendor covers its name": ("nvidia.com/*", "nvidia.com/gpu", True, True),
    "a vendor covers no other": ("nvidia.com/*", "amd.com/gpu", False, False),
    "a native name meets no opaque": ("opaque", "memory", False, False),
}


@pytest.mark.parametrize(("wide", "narrow", "covering", "meeting"), PATTERNS.values(), ids=PATTERNS)
def test_patterns(wide: str, narrow: str, covering: bool, meeting: bool) -> None:  # noqa: FBT001 - columns of a table
    assert pattern_covers(wide, narrow) is covering
    assert patterns_overlap(wide, narrow) is meeting
    assert patterns_overlap(narrow, wide) is meeting


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


@pytest.mark.parametrize(("wide", "narrow", "covering", "meeting"), LISTS.values(), ids=LISTS)
def test_lists_of_patterns(
    wide: tuple[str, ...],
    narrow: tuple[str, ...],
    covering: bool,  # noqa: FBT001 - columns of a table
    meeting: bool,  # noqa: FBT001 - columns of a table
) -> None:
    assert resources_cover(wide, narrow) is covering
    assert resources_overlap(wide, narrow) is resources_overlap(narrow, wide) is meeting


def test_a_list_has_what_includes_and_what_excludes() -> None:
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
def test_what_is_counted_in_whole_units_for_sure(pattern: str, countable: bool) -> None:  # noqa: FBT001 - a column
    assert is_countable_pattern(pattern) is countable


def _in(*include: str, exclude: tuple[str, ...] = (), **labels: str) -> NamespaceSelector:
    return NamespaceSelector(include, exclude, PolicyLabelSelector(labels) if labels else None)


NAMESPACES: dict[str, tuple[NamespaceSelector | None, NamespaceSelector | None, bool, bool]] = {
    "all cover all": (None, None, True, True),
    "all cover some": (None, _in("a"), True, True),
    "some cover not all": (_in("a"), None, False, True),
    "a star is all": (_in("*"), None, True, True),
    "a glob covers its names": (_in("team-*"), _in("team-a", "team-b"), True, True),
    "names cover no glob": (_in("team-a", "team-b"), _in("team-*"), False, True),
    "other names": (_in("a"), _in("b"), False, False),
    "what one excludes": (_in(exclude=("a",)), _in("a"), False, False),
    "what both exclude": (_in(exclude=("a",)), _in(exclude=("a", "b")), True, True),
    "labels narrow": (_in("a"), _in("a", gpu="yes"), True, True),
    "labels are asked": (_in("a", gpu="yes"), _in("a"), False, True),
    "other labels": (_in(gpu="yes"), _in(gpu="no"), False, False),
    "labels of other keys": (_in(gpu="yes"), _in(team="a"), False, True),
}


@pytest.mark.parametrize(("wide", "narrow", "covering", "meeting"), NAMESPACES.values(), ids=NAMESPACES)
def test_namespaces(
    wide: NamespaceSelector | None,
    narrow: NamespaceSelector | None,
    covering: bool,  # noqa: FBT001 - columns of a table
    meeting: bool,  # noqa: FBT001 - columns of a table
) -> None:
    assert namespaces_cover(wide, narrow) is covering
    assert namespaces_overlap(wide, narrow) is namespaces_overlap(narrow, wide) is meeting


def test_a_match_without_anything_covers_every_match() -> None:
    narrow = Match(_in("a"), frozenset({"Pod"}), PolicyLabelSelector({"a": "b"}), Subjects(users=("x",)))
    assert match_covers(Match(), narrow)
    assert not match_covers(narrow, Match())
    assert can_share_request(Match(), narrow)


def test_matches_for_other_kinds_never_share() -> None:
    assert not can_share_request(Match(kinds=frozenset({"Pod"})), Match(kinds=frozenset({"Node"})))
    assert can_share_request(Match(kinds=frozenset({"Pod", "Node"})), Match(kinds=frozenset({"Node"})))


@pytest.mark.parametrize(
    ("subjects", "everybody"),
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
def test_everybody(subjects: Subjects, everybody: bool) -> None:  # noqa: FBT001 - a column
    assert is_every_user(subjects) is everybody


def _bounds(least: str = "", most: str = "", multiple: str = "", *one_of: str) -> AmountBounds:
    low, high, unit = (Quantity.parse(text) if text else None for text in (least, most, multiple))
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
def test_what_bounds_allow(bounds: AmountBounds, amount: str, allowed: bool) -> None:  # noqa: FBT001 - a column
    assert is_allowed_amount(bounds, Quantity.parse(amount)) is allowed


LEAST: dict[str, tuple[tuple[AmountBounds, ...], str | None]] = {
    "nothing asked": ((_bounds(),), "0"),
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


@pytest.mark.parametrize(("every", "least"), LEAST.values(), ids=LEAST)
def test_the_least_that_bounds_allow(every: tuple[AmountBounds, ...], least: str | None) -> None:
    assert find_min_allowed(every) == (None if least is None else Quantity.parse(least))
    assert find_min_allowed(every[::-1]) == find_min_allowed(every)
