"""Whether decisions still come through: the reviews that are being decided and logged, and when the last one ended."""

import itertools
import time
from collections.abc import Callable

from tallygate.server.interfaces import ReadinessStatus

_NAME = "decisions"
_LASTING_SECONDS = 60.0


class DecisionProgress:
    """The decisions in progress, with the log of each. Any thread calls it.

    A decision is stuck after `limit` seconds. Reviews are stuck if meanwhile none has ended, or if `max_stuck`
    decisions are stuck: each of them occupies a thread. One that does not end alone is no reason to stop the gate.
    """

    def __init__(self, limit: float, max_stuck: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._max_stuck = max_stuck
        self._monotonic = monotonic
        self._keys = itertools.count()
        self._began_at: dict[int, float] = {}
        self._ended_at = monotonic()

    def begin(self) -> int:
        """Begin a decision, or its log line; return the key for its end."""
        key = next(self._keys)
        self._began_at[key] = self._monotonic()
        return key

    def end(self, key: int) -> None:
        """End what `begin` began."""
        del self._began_at[key]
        self._ended_at = self._monotonic()

    def check(self) -> ReadinessStatus:
        """Return a status that is not ready while reviews are stuck."""
        ready = not self._are_stuck(self._limit)
        return ReadinessStatus(_NAME, ready, {"stuck": self._count_stuck(self._limit)})

    def is_alive(self) -> bool:
        """Return whether reviews are not stuck, or not for a minute: then only a restart helps."""
        return not self._are_stuck(self._limit + _LASTING_SECONDS)

    def _are_stuck(self, seconds: float) -> bool:
        stuck = self._count_stuck(seconds)
        return stuck >= self._max_stuck or (stuck > 0 and self._monotonic() - self._ended_at > seconds)

    def _count_stuck(self, seconds: float) -> int:
        now = self._monotonic()
        return sum(now - began_at > seconds for began_at in list(self._began_at.values()))
