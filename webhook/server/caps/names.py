"""Names of caps as labels: as many as have room, and one for all others."""

from typing import Final

OTHER: Final = "other"
MOST_CAPS: Final = 500
"""Caps with series of their own. Policies name them, and whoever edits policies for years names ever new ones."""


class CapNames:
    """Gives each cap its own name for a label, until there are too many."""

    def __init__(self, most: int = MOST_CAPS) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, cap: str) -> str:
        """The name, or `other` where as many others came before."""
        if cap in self._known:
            return cap
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(cap)
        return cap
