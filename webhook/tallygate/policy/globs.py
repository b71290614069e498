"""Globs: `*` stands for any run of characters, `?` for one, and every other character for itself.

There are no character classes and no escapes: no name in a policy contains `*`, `?` or brackets. `*` matches `/` too,
so `nvidia.com/*` is a family and `*` matches every name.
"""

import re
from fnmatch import translate
from functools import lru_cache

WILDCARDS = frozenset("*?")


@lru_cache(maxsize=4096)
def compile_glob(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a glob, which matches whole texts.

    The time of a match is at most proportional to the text length times the glob length. `fnmatch.translate` writes
    each `*literal` as an atomic group, so that no text causes backtracking.
    """
    return re.compile(translate(glob.replace("[", "[[]")))


def matches(glob: str, text: str) -> bool:
    """Return whether a glob matches the whole text, case-sensitively."""
    return compile_glob(glob).match(text) is not None


def is_literal(glob: str) -> bool:
    """Return whether the glob matches only one text: itself."""
    return WILDCARDS.isdisjoint(glob)


def covers(wide: str, narrow: str) -> bool:
    """Return whether `wide` matches every text that `narrow` matches. The result is never wrongly true."""
    return wide == narrow or (_can_share_prefix(wide, narrow) and _covers_uncached(wide, narrow))


def _can_share_prefix(first: str, second: str) -> bool:
    """Return whether two globs agree up to their first wildcard, which excludes most pairs cheaply."""
    for left, right in zip(first, second, strict=False):
        if left in WILDCARDS or right in WILDCARDS:
            return True
        if left != right:
            return False
    return True


@lru_cache(maxsize=4096)
def _covers_uncached(wide: str, narrow: str) -> bool:
    """Return the result of `covers`: pass through `wide` with each symbol of `narrow`."""
    wide, narrow = _normalize(wide), _normalize(narrow)
    reach = {0}
    for symbol in narrow:
        reach = _advance(wide, _skip_stars(wide, reach), symbol)
    return len(wide) in _skip_stars(wide, reach)


def _normalize(glob: str) -> str:
    """Return an equivalent glob with one form for each run of wildcards: its `?` first, then one `*`."""
    return re.sub(r"[*?]+", lambda run: "?" * run[0].count("?") + ("*" if "*" in run[0] else ""), glob)


def _skip_stars(glob: str, reach: set[int]) -> set[int]:
    """Return the positions and also the positions after each `*` that may match an empty text."""
    positions = set(reach)
    for position in reach:
        next_position = position
        while next_position < len(glob) and glob[next_position] == "*":
            next_position += 1
            positions.add(next_position)
    return positions


def _advance(glob: str, reach: set[int], symbol: str) -> set[int]:
    """Return the positions after one more symbol of the narrower glob; only a `*` matches its `*`."""
    positions = set()
    for position in reach:
        if position == len(glob):
            continue
        if glob[position] == "*":
            positions.add(position)
        elif glob[position] == symbol or (glob[position] == "?" and symbol != "*"):
            positions.add(position + 1)
    return positions


def overlaps(first: str, second: str) -> bool:
    """Return whether some text matches both globs. The result is exact."""
    return first == second or (_can_share_prefix(first, second) and _overlaps_uncached(first, second))


@lru_cache(maxsize=4096)
def _overlaps_uncached(first: str, second: str) -> bool:
    """Return the result of `overlaps`: pass through both globs at once."""
    reach = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    while reach:
        positions = reach.pop()
        if positions == (len(first), len(second)):
            return True
        if positions not in seen:
            seen.add(positions)
            reach |= _advance_both(first, second, *positions)
    return False


def _advance_both(first: str, second: str, first_position: int, second_position: int) -> set[tuple[int, int]]:
    """Return the pairs of positions after one more character, or after the end of a `*`."""
    left, right = first[first_position : first_position + 1], second[second_position : second_position + 1]
    pairs = set()
    if left == "*":
        pairs.add((first_position + 1, second_position))
        if right:
            pairs.add((first_position, second_position + 1))
    if right == "*":
        pairs.add((first_position, second_position + 1))
        if left:
            pairs.add((first_position + 1, second_position))
    if left and right and "*" not in (left, right) and (left == right or "?" in (left, right)):
        pairs.add((first_position + 1, second_position + 1))
    return pairs
