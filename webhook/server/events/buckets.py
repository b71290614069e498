"""Token buckets by key: so many at once, and so many a second after that. The latest keys are remembered."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRate:
    """So many at once, and one more after every so many `seconds`."""

    burst: int
    interval: float


class TokenBuckets:
    """One bucket for each of the `most` keys that were seen last; one that is forgotten is full again."""

    def __init__(self, rate: TokenRate, max_keys: int) -> None:
        self._rate = rate
        self._max_keys = max_keys
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take_token(self, key: Hashable, now: float) -> bool:
        """Whether the key has a token left at this monotonic time; if so it has one less."""
        tokens = self._count_tokens(key, now)
        is_granted = tokens >= 1
        self._buckets[key] = (tokens - is_granted, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        return is_granted

    def _count_tokens(self, key: Hashable, now: float) -> float:
        burst = float(self._rate.burst)
        tokens, updated_at = self._buckets.get(key, (burst, now))
        return min(burst, tokens + (now - updated_at) / self._rate.interval)
