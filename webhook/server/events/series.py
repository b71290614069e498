"""Series of events: one for each owner, reason and code, with how often it was said, and when it may be said again."""

import re
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from webhook.server.events.buckets import Buckets, Rate
from webhook.server.events.said import Said

OWNER: Final = Rate(at_once=5, seconds=15.0)
NAMESPACE: Final = Rate(at_once=25, seconds=2.0)
ALL: Final = Rate(at_once=100, seconds=0.2)
"""One owner, its namespace, and all: a controller comes again by itself, after pauses that grow to minutes. What is
rewritten at each of them is one small object, and no tenant uses up what others need."""

_MOST: Final = 4096
_LONGEST_PREFIX: Final = 200  # of a name of 253
_ODD: Final = re.compile(r"[^a-z0-9.-]+")  # whoever makes a pod writes what he likes for the name of its owner


class Event(msgspec.Struct, frozen=True):
    """One event as it is to be written: `first` and `last` are seconds since 1970."""

    name: str
    said: Said
    count: int
    first: float
    last: float


@dataclass(slots=True)
class _Known:
    first: float
    count: int = 0


class Series:
    """The `most` series that were heard of last. One thread at a time may use it.

    `writer` is the name of this process among all that ever write: each has series of its own, so that none counts
    over another's.
    """

    def __init__(self, writer: str, most: int = _MOST) -> None:
        self._writer = writer
        self._most = most
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._limits = (
            (Buckets(OWNER, most), lambda said: said.owner.uid),
            (Buckets(NAMESPACE, most), lambda said: said.namespace),
            (Buckets(ALL, 1), lambda _: None),
        )

    def heard(self, said: Said, monotonic: float, now: float) -> Event | None:
        """Count it; the event to write, or None when one of its limits is reached: the next one will have the count."""
        name = self._name(said)
        known = self._known.setdefault(name, _Known(now))
        self._known.move_to_end(name)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        known.count += 1
        if not all(buckets.take(key(said), monotonic) for buckets, key in self._limits):
            return None
        return Event(name, said, known.count, known.first, now)

    def _name(self, said: Said) -> str:
        """The same for the same series of this process, and never that of another."""
        key = (self._writer, said.namespace, said.owner.uid, said.owner.kind, said.reason, said.code)
        prefix = _ODD.sub("-", said.owner.name[:_LONGEST_PREFIX]).strip("-.")
        return f"{prefix or 'owner'}.{sha256(repr(key).encode()).hexdigest()[:16]}"
