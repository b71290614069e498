"""How current a view is, and how that is known.

A watch tells what it has, never that it has all. So the API server is asked now and then, by a list of one object,
which revision the cluster is at; such a list is a quorum read. Once the view has reached that revision, by an event or
a bookmark, it is known to have been current when that question was sent. An idle resource gets no bookmark for the
revision its watch began at (kube-apiserver cache_watcher.go, process, v1.36), so silence alone means nothing.
"""

from collections import deque
from typing import NamedTuple

_MAX_MARKS = 64


class _Mark(NamedTuple):
    """The cluster was at `revision` at some moment after `at`, in monotonic seconds."""

    at: float
    revision: int


class Freshness:
    """What is known of one view; all times are monotonic seconds."""

    def __init__(self) -> None:
        self.revision: int | None = None
        self.confirmed_at: float | None = None
        self._marks: deque[_Mark] = deque()

    def record_list(self, revision: int, started_at: float) -> None:
        """A whole list was taken up; it holds all that had been written when it began."""
        self.revision = revision
        self.confirmed_at = started_at
        self._marks.clear()

    def record_event(self, revision: int) -> None:
        """The watch has told all up to here."""
        if self.revision is None or revision > self.revision:
            self.revision = revision
        self._confirm()

    def record_cluster_revision(self, revision: int, at: float) -> None:
        """The cluster was at this revision when asked."""
        if len(self._marks) < _MAX_MARKS:
            self._marks.append(_Mark(at, revision))
        self._confirm()

    def get_pending_since(self) -> float | None:
        """Since when the view is known to lack something, or at least a word that it lacks nothing."""
        return self._marks[0].at if self._marks else None

    def compute_age(self, now: float) -> float | None:
        """Seconds since the view was last known to be current; None before the first list."""
        at = self.confirmed_at
        return None if at is None else max(0.0, now - at)

    def _confirm(self) -> None:
        while self._marks and self.revision is not None and self._marks[0].revision <= self.revision:
            at = self._marks.popleft().at
            self.confirmed_at = at if self.confirmed_at is None else max(self.confirmed_at, at)
