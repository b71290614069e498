"""Names of caps as labels: as many as have room, and one for all others."""

from typing import Final

OTHER: Final = "other"
MAX_CAPS: Final = 500
"""Caps with series of their own. Policies name them, and whoever edits policies for years names ever new ones."""


class CapLabels:
    """Gives each cap its own name for a label, until there are too many."""

    def __init__(self, max_caps: int = MAX_CAPS) -> None:
        self._max_caps = max_caps
        self._caps: set[str] = set()

    def get_label(self, cap: str) -> str:
        """The name, or `other` where as many others came before."""
        if cap in self._caps:
            return cap
        if len(self._caps) >= self._max_caps:
            return OTHER
        self._caps.add(cap)
        return cap
