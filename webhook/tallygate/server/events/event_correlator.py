"""Series of events and their rate limits.

A series is one event for each owner, reason and code, with its count. Token buckets by key limit how often it is
written; the least recently used keys are dropped.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from tallygate.server.events.event_message import EventMessage


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

    def _count_tokens(self, key: Hashable, now: float) -> float:
        burst = float(self._rate.burst)
        tokens, updated_at = self._buckets.get(key, (burst, now))
        return min(burst, tokens + (now - updated_at) / self._rate.interval)


OWNER_RATE: Final = TokenRate(burst=5, interval=15.0)
NAMESPACE_RATE: Final = TokenRate(burst=25, interval=2.0)
TOTAL_RATE: Final = TokenRate(burst=100, interval=0.2)
"""The limits of one owner, one namespace and the whole process.

A controller retries by itself, after pauses that grow to minutes. Each retry rewrites one small object, and no tenant
uses up the tokens of the others.
"""

_MAX_SERIES: Final = 4096
_MAX_PREFIX_LENGTH: Final = 200  # of a name of 253
# The user who creates a pod chooses the name of its owner freely.
_INVALID_CHARACTERS: Final = re.compile(r"[^a-z0-9.-]+")


class Event(msgspec.Struct, frozen=True):
    """One event to write; `first_at` and `last_at` are seconds since 1970."""

    name: str
    message: EventMessage
    count: int
    first_at: float
    last_at: float


@dataclass(slots=True)
class _SeriesState:
    first_at: float
    count: int = 0


class EventCorrelator:
    """The `max_series` series that were counted last. Not thread-safe.

    `writer` is a name that no other process ever has: each process has series of its own, so that no process overwrites
    the counts of another one.
    """

    def __init__(self, writer: str, max_series: int = _MAX_SERIES) -> None:
        self._writer = writer
        self._max_series = max_series
        self._series: OrderedDict[str, _SeriesState] = OrderedDict()
        self._limits = (
            (TokenBuckets(OWNER_RATE, max_series), lambda message: message.owner.uid),
            (TokenBuckets(NAMESPACE_RATE, max_series), lambda message: message.namespace),
            (TokenBuckets(TOTAL_RATE, 1), lambda _: None),
        )

    def correlate(self, message: EventMessage, monotonic: float, now: float) -> Event | None:
        """Count a message in its series; return the event to write, or None if a limit is reached.

        The next event of the series has the full count. `now` is in seconds since 1970.
        """
        name = self._create_name(message)
        state = self._series.setdefault(name, _SeriesState(now))
        self._series.move_to_end(name)
        if len(self._series) > self._max_series:
            self._series.popitem(last=False)
        state.count += 1
        if not all(buckets.take_token(key(message), monotonic) for buckets, key in self._limits):
            return None
        return Event(name, message, state.count, state.first_at, now)

    def _create_name(self, message: EventMessage) -> str:
        """Return the object name of the message's series, which no other series and no other process has."""
        key = (self._writer, message.namespace, message.owner.uid, message.owner.kind, message.reason, message.code)
        prefix = _INVALID_CHARACTERS.sub("-", message.owner.name[:_MAX_PREFIX_LENGTH]).strip("-.")
        return f"{prefix or 'owner'}.{sha256(repr(key).encode()).hexdigest()[:16]}"
