"""Deletions that a watch has seen, as opposed to pods that a list merely lacked.

A promise to a pod whose deletion was seen can be dropped at once; one to a pod that is absent cannot, since it may yet
come (docs/caps.md, recount). The memory is bounded: what is forgotten counts as absent, which only delays.
"""

from collections import OrderedDict
from typing import NamedTuple

_MOST = 65_536


class Seen(NamedTuple):
    """UIDs whose deletion was seen after a revision; `is_whole` unless some may have been forgotten or missed."""

    uids: frozenset[str]
    is_whole: bool


class Deletions:
    """The latest deletions, by UID. A UID never comes back."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._at: OrderedDict[str, int] = OrderedDict()
        self._whole_since = 0

    def seen(self, uid: str, revision: int) -> None:
        """A deletion was seen; revisions come in growing order."""
        self._at[uid] = revision
        if len(self._at) > self._most:
            self._whole_since = self._at.popitem(last=False)[1]

    def missed_until(self, revision: int) -> None:
        """Up to here a list took the place of a watch, which may have kept deletions back."""
        self._whole_since = max(self._whole_since, revision)

    def at(self, uid: str) -> int | None:
        """The revision of a pod's deletion, if it was seen and is remembered."""
        return self._at.get(uid)

    def since(self, revision: int) -> Seen:
        """The deletions seen after a revision."""
        uids: list[str] = []
        for uid in reversed(self._at):
            if self._at[uid] <= revision:
                break
            uids.append(uid)
        return Seen(frozenset(uids), is_whole=revision >= self._whole_since)

    def forget(self) -> None:
        """Begin anew: the cluster went back in time, and revisions mean something else now."""
        self._at.clear()
        self._whole_since = 0
