"""Token buckets by key, with a bounded number of keys. Clocks and locks are the caller's."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRate:
    """The rate of a token bucket: `burst` tokens at once, and one more after every `interval` seconds."""

    burst: int
    interval: float


class TokenBuckets:
    """Token buckets for the `max_keys` keys that were used last; the bucket of a dropped key is full again."""

    def __init__(self, rate: TokenRate, max_keys: int) -> None:
        self._rate = rate
        self._max_keys = max_keys
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take_token(self, key: Hashable, now: float) -> bool:
        """Take a token of the key at the monotonic time `now`, and return whether there was one."""
        tokens = self._count_tokens(key, now)
        is_granted = tokens >= 1
        self._buckets[key] = (tokens - is_granted, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        return is_granted

    def get_wait(self, key: Hashable, now: float) -> float:
        """Return the seconds from the monotonic time `now` until the key has a token; 0 if it has one."""
        return max(0.0, (1 - self._count_tokens(key, now)) * self._rate.interval)

    def _count_tokens(self, key: Hashable, now: float) -> float:
        burst = float(self._rate.burst)
        tokens, updated_at = self._buckets.get(key, (burst, now))
        return min(burst, tokens + (now - updated_at) / self._rate.interval)
