"""Globs on every text of a small alphabet: matches, coverage and overlap."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.policy.globs import covers, is_literal, matches, overlaps
from tests.effort import examples

TEXTS = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]
GLOBS = st.text("ab*?", max_size=4)

# The shortest text that two of these share has five letters at most.
SHORT_GLOBS = st.text("ab*?", max_size=3)


def _match_simply(glob: str, text: str) -> bool:
    """Match a text by a simple reference implementation of globs."""
    if not glob:
        return not text
    if glob[0] == "*":
        return any(_match_simply(glob[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and glob[0] in {"?", text[0]} and _match_simply(glob[1:], text[1:])


@given(GLOBS)
def test_a_glob_matches_like_the_reference_implementation(glob: str) -> None:
    assert [text for text in TEXTS if matches(glob, text)] == [text for text in TEXTS if _match_simply(glob, text)]


@given(GLOBS, GLOBS)
@settings(max_examples=examples(150))
def test_a_glob_that_covers_another_matches_all_of_it(wide: str, narrow: str) -> None:
    contained = all(matches(wide, text) for text in TEXTS if matches(narrow, text))
    assert contained or not covers(wide, narrow)


@given(SHORT_GLOBS, SHORT_GLOBS)
@settings(max_examples=examples(150))
def test_overlap_is_exact(one: str, other: str) -> None:
    assert overlaps(one, other) is any(matches(one, text) and matches(other, text) for text in TEXTS)


@given(GLOBS)
def test_every_glob_covers_itself_and_is_covered_by_the_star(glob: str) -> None:
    assert covers(glob, glob)
    assert covers("*", glob)


COVERS: dict[str, tuple[str, str, bool]] = {
    "a star covers a name": ("nvidia.com/*", "nvidia.com/gpu", True),
    "a star covers a longer star": ("nvidia.com/*", "nvidia.com/gpu*", True),
    "a name covers no star": ("nvidia.com/gpu", "nvidia.com/*", False),
    "wildcards in any order": ("*?", "?*", True),
    "a question mark covers a letter": ("a?", "ab", True),
    "a letter covers no question mark": ("ab", "a?", False),
    "a question mark covers no star": ("?", "*", False),
    "two stars are one": ("**", "*", True),
    "an inner star": ("a*c", "abc", True),
    "an inner star and another end": ("a*c", "abd", False),
    "parts in their order": ("*ab*c*", "xab*yc", True),
    "parts in another order": ("*c*ab*", "xab*yc", False),
    "parts that share a letter": ("a*ab", "ab", False),
    "a question mark in an inner part": ("*a?c*", "xabac*", False),
    "a question mark in an inner part that is there": ("*a?c*", "xab*abc", True),
    "other domains": ("amd.com/*", "nvidia.com/*", False),
}


@pytest.mark.parametrize(("wide", "narrow", "expected"), COVERS.values(), ids=COVERS)
def test_a_glob_covers_another(wide: str, narrow: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert covers(wide, narrow) is expected


OVERLAPS: dict[str, tuple[str, str, bool]] = {
    "stars with the same begin": ("ab*c", "a*", True),
    "stars with another end": ("*a?b", "*acc", False),
    "stars with parts between them": ("*b*a*", "*c*d*", True),
    "a star and a question mark": ("*ab", "?b", True),
    "parts that need more letters": ("a*ab", "???b", True),
    "parts that need more letters than there are": ("a*ab", "??", False),
    "an inner part": ("*ba*", "?b?", True),
    "no inner part": ("*ba*", "?bc", False),
}


@pytest.mark.parametrize(("one", "other", "expected"), OVERLAPS.values(), ids=OVERLAPS)
def test_a_glob_overlaps_another(one: str, other: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert overlaps(one, other) is overlaps(other, one) is expected


def test_brackets_are_literal() -> None:
    assert matches("a[b]", "a[b]")
    assert not matches("a[b]", "ab")


def test_a_glob_without_wildcards_is_literal() -> None:
    assert is_literal("nvidia.com/gpu")
    assert not is_literal("nvidia.com/*")
    assert not is_literal("nvidia.com/gp?")
