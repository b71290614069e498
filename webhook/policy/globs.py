"""Globs: `*` stands for any run of characters, `?` for one, and every other character for itself.

There are no character classes and no escapes: no name that a policy speaks of contains `*`, `?` or brackets. `*`
crosses `/`, so `nvidia.com/*` is a family and `*` is everything.
"""

import re
from fnmatch import translate
from functools import lru_cache

WILDCARDS = frozenset("*?")


@lru_cache(maxsize=4096)
def compile_glob(glob: str) -> re.Pattern[str]:
    """The regular expression of a glob. It matches whole texts, in time that grows with text times glob, no worse.

    `fnmatch.translate` writes each `*literal` as an atomic group, so that no text makes it backtrack.
    """
    return re.compile(translate(glob.replace("[", "[[]")))


def matches(glob: str, text: str) -> bool:
    """Whether the whole text matches, case and all."""
    return compile_glob(glob).match(text) is not None


def is_literal(glob: str) -> bool:
    """Whether the glob matches one text only: itself."""
    return WILDCARDS.isdisjoint(glob)


def covers(wide: str, narrow: str) -> bool:
    """Whether every text that `narrow` matches is matched by `wide`. Never wrongly true."""
    return wide == narrow or (_can_share_prefix(wide, narrow) and _covers_uncached(wide, narrow))


def _can_share_prefix(first: str, second: str) -> bool:
    """Whether two globs agree as far as neither is wild yet: a cheap no for most pairs."""
    for left, right in zip(first, second, strict=False):
        if left in WILDCARDS or right in WILDCARDS:
            return True
        if left != right:
            return False
    return True


@lru_cache(maxsize=4096)
def _covers_uncached(wide: str, narrow: str) -> bool:
    """`covers`, by walking through `wide` with each symbol of `narrow`."""
    wide, narrow = _normalize(wide), _normalize(narrow)
    reach = {0}
    for symbol in narrow:
        reach = _advance(wide, _skip_stars(wide, reach), symbol)
    return len(wide) in _skip_stars(wide, reach)


def _normalize(glob: str) -> str:
    """The same glob with each run of wildcards written one way: its `?` first, then one `*`."""
    return re.sub(r"[*?]+", lambda run: "?" * run[0].count("?") + ("*" if "*" in run[0] else ""), glob)


def _skip_stars(glob: str, reach: set[int]) -> set[int]:
    """The positions, with those behind a `*` that may stand for nothing."""
    positions = set(reach)
    for position in reach:
        next_position = position
        while next_position < len(glob) and glob[next_position] == "*":
            next_position += 1
            positions.add(next_position)
    return positions


def _advance(glob: str, reach: set[int], symbol: str) -> set[int]:
    """Where the glob may stand after one more symbol of the narrower glob; only its `*` takes a `*`."""
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
    """Whether some text matches both globs. Exact."""
    return first == second or (_can_share_prefix(first, second) and _overlaps_uncached(first, second))


@lru_cache(maxsize=4096)
def _overlaps_uncached(first: str, second: str) -> bool:
    """`overlap`, by walking through both at once."""
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
    """The pairs of positions that one further character, or a `*` that ends, leads to."""
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
