"""Token buckets by key: so many at once, and so many a second after that. The latest keys are remembered."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and one more after every so many `seconds`."""

    at_once: int
    seconds: float


class Buckets:
    """One bucket for each of the `most` keys that were seen last; one that is forgotten is full again."""

    def __init__(self, rate: Rate, most: int) -> None:
        self._rate = rate
        self._most = most
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Whether the key has a token left at this monotonic time; if so it has one less."""
        tokens = self._tokens(key, now)
        granted = tokens >= 1
        self._left[key] = (tokens - granted, now)
        self._left.move_to_end(key)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return granted

    def _tokens(self, key: Hashable, now: float) -> float:
        full = float(self._rate.at_once)
        tokens, then = self._left.get(key, (full, now))
        return min(full, tokens + (now - then) / self._rate.seconds)
