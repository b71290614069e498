"""Token buckets by key: so many at once, and so many a second after that. The latest keys are remembered.

Series of events: one for each owner, reason and code, with how often it was said, and when it may be said again.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from webhook.server.events.event_message import EventMessage


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


OWNER_RATE: Final = TokenRate(burst=5, interval=15.0)
NAMESPACE_RATE: Final = TokenRate(burst=25, interval=2.0)
TOTAL_RATE: Final = TokenRate(burst=100, interval=0.2)
"""One owner, its namespace, and all: a controller comes again by itself, after pauses that grow to minutes. What is
rewritten at each of them is one small object, and no tenant uses up what others need."""

_MAX_SERIES: Final = 4096
_MAX_PREFIX_LENGTH: Final = 200  # of a name of 253
_INVALID_CHARACTERS: Final = re.compile(
    r"[^a-z0-9.-]+"
)  # whoever makes a pod writes what he likes for the name of its owner


class Event(msgspec.Struct, frozen=True):
    """One event as it is to be written: `first` and `last` are seconds since 1970."""

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
    """The `most` series that were heard of last. One thread at a time may use it.

    `writer` is the name of this process among all that ever write: each has series of its own, so that none counts
    over another's.
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
        """Count it; the event to write, or None when one of its limits is reached: the next one will have the count."""
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
        """The same for the same series of this process, and never that of another."""
        key = (self._writer, message.namespace, message.owner.uid, message.owner.kind, message.reason, message.code)
        prefix = _INVALID_CHARACTERS.sub("-", message.owner.name[:_MAX_PREFIX_LENGTH]).strip("-.")
        return f"{prefix or 'owner'}.{sha256(repr(key).encode()).hexdigest()[:16]}"
