"""The age of a store, measured against the revision of the cluster.

A watch sends events, but never states that they are complete. So the reflector requests the revision of the cluster at
intervals, with a list of one object; such a list is a quorum read. Once an event or a bookmark has reached that
revision, the store was current at the time of the request. An idle resource gets no bookmark for the revision at which
its watch began (kube-apiserver cache_watcher.go, process, v1.36), so silence alone proves nothing.
"""

from collections import deque
from typing import NamedTuple

_MAX_MARKS = 64


class _Mark(NamedTuple):
    """A revision of the cluster. The cluster reached it at some time after `at`, in monotonic seconds."""

    at: float
    revision: int


class Freshness:
    """The revision of one store and the time of its last confirmation; all times are monotonic seconds."""

    def __init__(self) -> None:
        self.revision: int | None = None
        self.confirmed_at: float | None = None
        self._marks: deque[_Mark] = deque()

    def record_list(self, revision: int, started_at: float) -> None:
        """Record a complete list. It contains all writes before `started_at`."""
        self.revision = revision
        self.confirmed_at = started_at
        self._marks.clear()

    def record_event(self, revision: int) -> None:
        """Record that the watch has sent all events up to `revision`."""
        if self.revision is None or revision > self.revision:
            self.revision = revision
        self._confirm()

    def record_cluster_revision(self, revision: int, at: float) -> None:
        """Record the revision of the cluster, requested at `at`."""
        if len(self._marks) < _MAX_MARKS:
            self._marks.append(_Mark(at, revision))
        self._confirm()

    def get_pending_since(self) -> float | None:
        """Return the time of the oldest request whose revision the store has not reached, or None."""
        return self._marks[0].at if self._marks else None

    def compute_age(self, now: float) -> float | None:
        """Compute the seconds since the store was last known to be current; None before the first list."""
        at = self.confirmed_at
        return None if at is None else max(0.0, now - at)

    def _confirm(self) -> None:
        while self._marks and self.revision is not None and self._marks[0].revision <= self.revision:
            at = self._marks.popleft().at
            self.confirmed_at = at if self.confirmed_at is None else max(self.confirmed_at, at)
