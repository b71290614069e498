"""Globs: `*` stands for any run of characters, `?` for one, and every other character for itself.

There are no character classes and no escapes: no name that a policy speaks of contains `*`, `?` or brackets. `*`
crosses `/`, so `nvidia.com/*` is a family and `*` is everything.
"""

import re
from fnmatch import translate
from functools import lru_cache

WILD = frozenset("*?")


@lru_cache(maxsize=4096)
def compiled(glob: str) -> re.Pattern[str]:
    """The regular expression of a glob. It matches whole texts, in time that grows with text times glob, no worse.

    `fnmatch.translate` writes each `*literal` as an atomic group, so that no text makes it backtrack.
    """
    return re.compile(translate(glob.replace("[", "[[]")))


def matches(glob: str, text: str) -> bool:
    """Whether the whole text matches, case and all."""
    return compiled(glob).match(text) is not None


def is_literal(glob: str) -> bool:
    """Whether the glob matches one text only: itself."""
    return WILD.isdisjoint(glob)


def covers(wide: str, narrow: str) -> bool:
    """Whether every text that `narrow` matches is matched by `wide`. Never wrongly true."""
    return wide == narrow or (_begin_alike(wide, narrow) and _covers(wide, narrow))


def _begin_alike(one: str, other: str) -> bool:
    """Whether two globs agree as far as neither is wild yet: a cheap no for most pairs."""
    for left, right in zip(one, other, strict=False):
        if left in WILD or right in WILD:
            return True
        if left != right:
            return False
    return True


@lru_cache(maxsize=4096)
def _covers(wide: str, narrow: str) -> bool:
    """`covers`, by walking through `wide` with each symbol of `narrow`."""
    wide, narrow = _settled(wide), _settled(narrow)
    reach = {0}
    for symbol in narrow:
        reach = _step(wide, _past_stars(wide, reach), symbol)
    return len(wide) in _past_stars(wide, reach)


def _settled(glob: str) -> str:
    """The same glob with each run of wildcards written one way: its `?` first, then one `*`."""
    return re.sub(r"[*?]+", lambda run: "?" * run[0].count("?") + ("*" if "*" in run[0] else ""), glob)


def _past_stars(glob: str, reach: set[int]) -> set[int]:
    """The positions, with those behind a `*` that may stand for nothing."""
    out = set(reach)
    for at in reach:
        ahead = at
        while ahead < len(glob) and glob[ahead] == "*":
            ahead += 1
            out.add(ahead)
    return out


def _step(glob: str, reach: set[int], symbol: str) -> set[int]:
    """Where the glob may stand after one more symbol of the narrower glob; only its `*` takes a `*`."""
    out = set()
    for at in reach:
        if at == len(glob):
            continue
        if glob[at] == "*":
            out.add(at)
        elif glob[at] == symbol or (glob[at] == "?" and symbol != "*"):
            out.add(at + 1)
    return out


def overlap(one: str, other: str) -> bool:
    """Whether some text matches both globs. Exact."""
    return one == other or (_begin_alike(one, other) and _overlap(one, other))


@lru_cache(maxsize=4096)
def _overlap(one: str, other: str) -> bool:
    """`overlap`, by walking through both at once."""
    reach = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    while reach:
        at = reach.pop()
        if at == (len(one), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            reach |= _meet(one, other, *at)
    return False


def _meet(one: str, other: str, i: int, j: int) -> set[tuple[int, int]]:
    """The pairs of positions that one further character, or a `*` that ends, leads to."""
    left, right = one[i : i + 1], other[j : j + 1]
    out = set()
    if left == "*":
        out.add((i + 1, j))
        if right:
            out.add((i, j + 1))
    if right == "*":
        out.add((i, j + 1))
        if left:
            out.add((i + 1, j))
    if left and right and "*" not in (left, right) and (left == right or "?" in (left, right)):
        out.add((i + 1, j + 1))
    return out
