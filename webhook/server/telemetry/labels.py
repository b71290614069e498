"""Metric labels of caps: a bounded number of names, and one label for all others."""

from typing import Final

OTHER: Final = "other"
MAX_CAPS: Final = 500
"""Maximum number of caps with a series of their own. Policies name caps, and years of edits bring ever new names."""


class CapLabels:
    """The labels of caps: the name for each of the first `max_caps` caps, `other` for the rest."""

    def __init__(self, max_caps: int = MAX_CAPS) -> None:
        self._max_caps = max_caps
        self._caps: set[str] = set()

    def get_label(self, cap: str) -> str:
        """Return the name of the cap, or `other` if `max_caps` others have labels already."""
        if cap in self._caps:
            return cap
        if len(self._caps) >= self._max_caps:
            return OTHER
        self._caps.add(cap)
        return cap
