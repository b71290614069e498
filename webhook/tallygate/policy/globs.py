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
    """Return the result of `covers`: the parts of `wide` between its stars, one after the other in `narrow`.

    The first place of a part leaves the most for the next ones, so that the time is that of a few searches.
    """
    wide, narrow = _normalize(wide), _normalize(narrow)
    first, *others = wide.split("*")
    if not others:
        return len(first) == len(narrow) and _begins_with(narrow, first, 0)
    *middle, last = others
    position, end = len(first), len(narrow) - len(last)
    if position > end or not (_begins_with(narrow, first, 0) and _begins_with(narrow, last, end)):
        return False
    for part in middle:
        position = _find_part(narrow, part, position, end)
        if position < 0:
            return False
    return True


@lru_cache(maxsize=4096)
def _normalize(glob: str) -> str:
    """Return an equivalent glob with one form for each run of wildcards: its `?` first, then one `*`."""
    return re.sub(r"[*?]+", lambda run: "?" * run[0].count("?") + ("*" if "*" in run[0] else ""), glob)


def _begins_with(text: str, part: str, position: int) -> bool:
    """Return whether a part is at a position of a glob; its `?` stands for any symbol of it but `*`."""
    if "?" not in part:
        return text.startswith(part, position)
    symbols = text[position : position + len(part)]
    return len(symbols) == len(part) and all(
        symbol == sign or (sign == "?" and symbol != "*") for symbol, sign in zip(symbols, part, strict=True)
    )


def _find_part(text: str, part: str, begin: int, end: int) -> int:
    """Return the position after the first place of a part between two positions of a glob, -1 without one."""
    if "?" not in part:
        found = text.find(part, begin, end)
        return found if found < 0 else found + len(part)
    places = range(begin, end - len(part) + 1)
    return next((place + len(part) for place in places if _begins_with(text, part, place)), -1)


def overlaps(first: str, second: str) -> bool:
    """Return whether some text matches both globs. The result is exact."""
    return first == second or (_can_share_prefix(first, second) and _overlaps_uncached(first, second))


@lru_cache(maxsize=4096)
def _overlaps_uncached(first: str, second: str) -> bool:
    """Return the result of `overlaps`.

    Two globs with stars overlap if their texts before the first star agree, and those after the last one: the longer
    of each, with all parts of both globs between them, matches both.
    """
    first, second = _normalize(first), _normalize(second)
    if "*" in first and "*" in second:
        begins, ends = ([glob.split("*")[index] for glob in (first, second)] for index in (0, -1))
        return _agree(*begins) and _agree(*(end[::-1] for end in ends))
    if "*" not in first and "*" not in second:
        return len(first) == len(second) and _agree(first, second)
    glob, text = (first, second) if "*" in first else (second, first)
    begin, *middle, end = glob.split("*")
    position, limit = len(begin), len(text) - len(end)
    if position > limit or not (_agree(begin, text) and _agree(end[::-1], text[::-1])):
        return False
    for part in middle:
        places = range(position, limit - len(part) + 1)
        position = next((place + len(part) for place in places if _agree(part, text[place:])), -1)
        if position < 0:
            return False
    return True


def _agree(first: str, second: str) -> bool:
    """Return whether two texts without stars agree as far as both go; `?` agrees with each symbol."""
    return all(left == right or "?" in (left, right) for left, right in zip(first, second, strict=False))
