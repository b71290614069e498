"""Deletions that a watch has seen, as opposed to pods that a list merely lacked.

A promise to a pod whose deletion was seen can be dropped at once; one to a pod that is absent cannot, since it may yet
come (docs/caps.md, recount). The memory is bounded: what is forgotten counts as absent, which only delays.
"""

from collections import OrderedDict
from typing import NamedTuple

_MAX_TOMBSTONES = 65_536


class DeletedPods(NamedTuple):
    """UIDs whose deletion was seen after a revision; `is_whole` unless some may have been forgotten or missed."""

    uids: frozenset[str]
    is_complete: bool


class Tombstones:
    """The latest deletions, by UID. A UID never comes back."""

    def __init__(self, max_size: int = _MAX_TOMBSTONES) -> None:
        self._max_size = max_size
        self._revisions: OrderedDict[str, int] = OrderedDict()
        self._complete_since = 0

    def add(self, uid: str, revision: int) -> None:
        """A deletion was seen; revisions come in growing order."""
        self._revisions[uid] = revision
        if len(self._revisions) > self._max_size:
            self._complete_since = self._revisions.popitem(last=False)[1]

    def mark_incomplete_until(self, revision: int) -> None:
        """Up to here a list took the place of a watch, which may have kept deletions back."""
        self._complete_since = max(self._complete_since, revision)

    def get_revision(self, uid: str) -> int | None:
        """The revision of a pod's deletion, if it was seen and is remembered."""
        return self._revisions.get(uid)

    def list_since(self, revision: int) -> DeletedPods:
        """The deletions seen after a revision."""
        uids: list[str] = []
        for uid in reversed(self._revisions):
            if self._revisions[uid] <= revision:
                break
            uids.append(uid)
        return DeletedPods(frozenset(uids), is_complete=revision >= self._complete_since)

    def clear(self) -> None:
        """Begin anew: the cluster went back in time, and revisions mean something else now."""
        self._revisions.clear()
        self._complete_since = 0
