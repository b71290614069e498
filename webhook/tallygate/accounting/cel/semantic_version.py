"""Semantic versions as github.com/blang/semver v4 reads them, which Kubernetes uses for versions in expressions."""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Final

_UINT64_MAX: Final = 2**64 - 1
_NUMBER = "0|[1-9][0-9]*"
_IDENTIFIER = r"[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?"
)
_DIGITS = frozenset("0123456789")
_MAX_DIGITS = 20  # of an unsigned integer of 64 bits


@total_ordering
class SemanticVersion:
    """A version; build metadata is part of the text, and of no comparison."""

    __slots__ = ("_order", "major", "minor", "patch")

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[str, ...]) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        # A version without identifiers is greater; numbers are less than other identifiers; fewer are less than more.
        identifiers = tuple(
            (0, int(identifier), "") if set(identifier) <= _DIGITS else (1, 0, identifier) for identifier in prerelease
        )
        self._order = (major, minor, patch, not prerelease, identifiers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemanticVersion) and self._order == other._order

    def __lt__(self, other: SemanticVersion) -> bool:
        return self._order < other._order

    __hash__ = None  # type: ignore[assignment]  # unhashable in Go too


@lru_cache(maxsize=1024)
def parse_version(text: str) -> SemanticVersion | None:
    """Return the version that a text is, or None."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    prerelease = tuple(match[4].split(".")) if match[4] else ()
    numeric = [part for part in prerelease if set(part) <= _DIGITS]
    texts = (*match.groups()[:3], *numeric)
    if any(len(group) > _MAX_DIGITS or int(group) > _UINT64_MAX for group in texts):
        return None
    if any(part != "0" and part[0] == "0" for part in numeric):
        return None
    numbers = [int(group) for group in match.groups()[:3]]
    return SemanticVersion(numbers[0], numbers[1], numbers[2], prerelease)


def normalize_version(text: str) -> str | None:
    """Return a text with three numbers without leading zeros and without a leading `v` (normalizeAndParse), or None."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_remove_zeros(part) for part in parts]
    if len(parts) < 3:  # noqa: PLR2004 - major, minor and patch
        if set(parts[-1]) & {"+", "-"}:
            return None
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _remove_zeros(part: str) -> str:
    """Return a part without leading zeros; a digit stays."""
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in _DIGITS else f"0{stripped}"
