"""The Events that a gate writes on the owners of pods which it denied: what was refused of late, and what would pass.

An API server keeps Events for an hour. A user who may create Events in a namespace can write such a one, and misleads
the readers of that namespace. What users create without an owner is denied to them directly, and leaves no Event.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from tallygate.cluster.rejected_pods import RejectedPods

REJECTED: Final = "Rejected"
"""The reason of an Event about denied pods."""

REPORTER: Final = "tallygate"
"""The component that reports the Events."""

KEPT: Final = timedelta(hours=1)
"""The age up to which a refusal is listed: as long as an API server keeps an Event by default."""


class _Reference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Event(msgspec.Struct, rename="camel", frozen=True):
    involved_object: _Reference = _Reference()
    reason: str = ""
    message: str = ""
    count: int = 1
    last_timestamp: str | None = None
    reporting_component: str = ""


class Refusal(NamedTuple):
    """The owner of denied pods, how often they were denied, when last, and the message then."""

    kind: str
    name: str
    times: int
    last: datetime
    message: str


class ReportedRefusals(NamedTuple):
    """The reports of controllers and the gate about pods of a namespace that are not stored; None if not known.

    `rejected` are the pods that controllers lack since they could not create them, `refusals` the Events of the gate in
    the last hour. `unknown` says what could not be read.
    """

    rejected: tuple[RejectedPods, ...] | None = None
    refusals: tuple[Refusal, ...] | None = None
    unknown: tuple[str, ...] = ()


NOTHING_REPORTED: Final = ReportedRefusals()


def read_refusals(items: Iterable[msgspec.Raw], now: datetime) -> list[Refusal]:
    """Return the refusals of the last hour among Events of one namespace, the last one first.

    Each replica of a gate writes Events of its own: those about one owner are one refusal.
    """
    by_owner: dict[tuple[str, str], Refusal] = {}
    for refusal in _decode(items):
        if refusal.last < now - KEPT:
            continue
        known = by_owner.get((refusal.kind, refusal.name))
        if known is not None:
            last = max(known, refusal, key=lambda each: each.last)
            refusal = last._replace(times=known.times + refusal.times)  # noqa: PLW2901  # both are one
        by_owner[refusal.kind, refusal.name] = refusal
    return sorted(by_owner.values(), key=lambda each: (-each.last.timestamp(), each.kind, each.name))


def _decode(items: Iterable[msgspec.Raw]) -> Iterator[Refusal]:
    for item in items:
        with suppress(ValueError):  # no gate has written it
            event = msgspec.json.decode(item, type=_Event)
            if (event.reason, event.reporting_component) == (REJECTED, REPORTER):
                last = datetime.fromisoformat(event.last_timestamp or "")
                last = last if last.tzinfo is not None else last.replace(tzinfo=UTC)
                of = event.involved_object
                yield Refusal(of.kind, of.name, event.count, last, event.message)
