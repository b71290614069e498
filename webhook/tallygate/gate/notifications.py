"""The messages to receivers that follow from observed conditions, from what was sent before, and from the time.

A condition is a fact of now, by its key: a ledger is above a soft limit, a resource of it is full, an override ends, a
check of this gate fails. A message is due for as long as its condition is there and was not reported to the receiver,
so that nothing is queued: what a receiver did not take is due again, also after a restart, and what has ended is not
reported any more. A receiver gets at most `at_most` messages in an hour; the last of them sums up all that is due then.

Times are in seconds of the Unix epoch, since the record outlives the process.
"""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from tallygate.policy.globs import matches
from tallygate.policy.times import format_time

MAX_RECEIVERS: Final = 10
MAX_AT_MOST: Final = 60
"""The largest number of messages in an hour."""
MAX_CONDITIONS: Final = 4_000
"""The largest number of conditions in a record: an annotation of an object has at most 256 KiB."""

_HOUR_SECONDS: Final = 3600.0
_ENDED_SECONDS: Final = 24 * 3600.0
"""How long a receiver that is out of reach may take the message about a recovery."""
_MAX_REASON_LENGTH: Final = 300
_MAX_SHOWN_CHECKS: Final = 5
_KEY_BYTES: Final = 9


class NotificationEvent(StrEnum):
    """The events of messages; the last two follow from others."""

    SOFT_LIMIT_CROSSED = "softLimitCrossed"
    CAP_FULL = "capFull"
    OVERRIDE_ENDS = "overrideEnds"
    GATE_DEGRADED = "gateDegraded"
    GATE_RECOVERED = "gateRecovered"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Subscription:
    """The messages that a receiver gets.

    `seconds` has, for each event that it wants, how long the condition is there before its message, or for overrides
    how long before the end the message is due. `caps` are globs over the names of caps; empty for all.
    """

    name: str
    seconds: Mapping[NotificationEvent, float]
    caps: tuple[str, ...] = ()
    at_most: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A fact of now; `fields` are texts for messages. An override ends at `ends_at`."""

    event: NotificationEvent
    fields: Mapping[str, str]
    ends_at: float = 0.0


class ObservedConditions(NamedTuple):
    """The conditions by key; `unknown` are the keys of those that may be there as well, since not all is known."""

    conditions: Mapping[str, Condition]
    unknown: AbstractSet[str] = frozenset()


class Notification(NamedTuple):
    """A message that is due, with the keys of the conditions that it reports, and the texts of its fields."""

    event: NotificationEvent
    keys: Sequence[str]
    fields: Mapping[str, str]


_UnixSecond = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]  # to the end of 9999: a message can show it


class RecordedCondition(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A condition: when it began, a bit for each receiver that has the message, and when it ended, 0 if it did not."""

    since: _UnixSecond
    notified: Annotated[int, msgspec.Meta(ge=0, lt=1 << MAX_RECEIVERS)] = 0
    ended: _UnixSecond = 0


class NotificationRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The memory of a book: the receivers, the conditions by key, and the times of the last messages by receiver."""

    receivers: list[str] = []
    conditions: dict[str, RecordedCondition] = {}
    sent: dict[str, list[_UnixSecond]] = {}


def create_condition_key(*parts: str) -> str:
    """Return the short key of a condition, as the record has it: a hash of 72 bits."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=_KEY_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii")


@dataclass(slots=True)
class _Entry:
    """A condition in a book; without a `condition` it is of a record, and was not observed yet."""

    since: float
    notified: set[str] = field(default_factory=set)
    ended: float | None = None
    condition: Condition | None = None


class _Active(NamedTuple):
    """A condition that is there, and the receivers that have its message."""

    since: float
    key: str
    condition: Condition
    notified: AbstractSet[str]


class NotificationBook:
    """The conditions that one sender reports, and what it has reported to each receiver; for one thread at a time."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = {each.name: each for each in subscriptions}
        self._entries: dict[str, _Entry] = {}
        self._sent: dict[str, list[float]] = {name: [] for name in self._subscriptions}
        self.left_out = 0
        """The number of conditions that are not tracked, since there are too many."""

    def observe(self, observed: ObservedConditions, now: float) -> None:
        """Take the conditions of now: new ones begin, and those that are neither there nor unknown end."""
        self.left_out = 0
        for name in self._sent:  # a clock that was ahead stops no message for good
            self._sent[name] = self._list_recent(name, now)
        for key in sorted(observed.conditions):
            entry = self._entries.get(key)
            if entry is None:
                if len(self._entries) >= MAX_CONDITIONS:
                    self.left_out += 1
                    continue
                entry = self._entries[key] = _Entry(now)
            entry.condition, entry.ended, entry.since = observed.conditions[key], None, min(entry.since, now)
        for key in self._entries.keys() - observed.conditions.keys() - observed.unknown:
            self._end(key, now)

    def find_due(self, receiver: str, now: float) -> Notification | None:
        """Return the next message for a receiver, None if none is due or it has had as many as it may in an hour."""
        subscription = self._subscriptions[receiver]
        left = subscription.at_most - len(self._list_recent(receiver, now))
        if left <= 0:
            return None
        due = [active for active in self._list_active() if _is_due(subscription, active, now)]
        if len(due) > 1 and left == 1:
            fields = {"count": str(len(due)), "message": f"{len(due)} more: tallygate usage"}
            return Notification(NotificationEvent.SUMMARY, [active.key for active in due], fields)
        return _describe(due[0]) if due else None

    def record_sent(self, receiver: str, notification: Notification, now: float) -> None:
        """Record that a receiver has a message, or will never take it."""
        self._sent[receiver] = [*self._list_recent(receiver, now), now]
        for key in notification.keys:
            if key in self._entries:
                self._entries[key].notified.add(receiver)

    def create_record(self, now: float) -> NotificationRecord:
        """Return what another process needs, so that it repeats no message."""
        bits = {name: 1 << index for index, name in enumerate(self._subscriptions)}
        conditions = {
            key: RecordedCondition(int(entry.since), sum(bits[name] for name in entry.notified), int(entry.ended or 0))
            for key, entry in sorted(self._entries.items())
        }
        sent = {name: [math.ceil(time) for time in self._list_recent(name, now)] for name in self._subscriptions}
        recent = {name: times for name, times in sent.items() if times}
        return NotificationRecord(list(self._subscriptions), conditions, recent)

    def restore(self, record: NotificationRecord, now: float) -> None:
        """Add what a process before, or another one, has recorded; receivers that are not there any more are left out.

        Call it once. A time of a clock that was ahead counts as now.
        """
        names = [(1 << index, name) for index, name in enumerate(record.receivers) if name in self._subscriptions]
        for key, recorded in record.conditions.items():
            if key not in self._entries and len(self._entries) >= MAX_CONDITIONS:
                break
            entry = self._entries.setdefault(key, _Entry(now))
            entry.since = min(entry.since, float(recorded.since))
            entry.notified |= {name for bit, name in names if recorded.notified & bit}
            if recorded.ended and entry.condition is None:
                entry.ended = min(float(recorded.ended), now)
        for name, times in record.sent.items():
            if name in self._subscriptions:
                merged = sorted([*self._sent[name], *(min(float(time), now) for time in times)])
                self._sent[name] = merged[-MAX_AT_MOST:]

    def _end(self, key: str, _: float) -> None:
        del self._entries[key]

    def _list_active(self) -> list[_Active]:
        """Return the conditions that are there, those that began first at first."""
        active = [
            _Active(entry.since, key, entry.condition, entry.notified)
            for key, entry in self._entries.items()
            if entry.condition is not None and entry.ended is None
        ]
        return sorted(active, key=_get_since)

    def _list_recent(self, receiver: str, now: float) -> list[float]:
        return [min(time, now) for time in self._sent[receiver] if time > now - _HOUR_SECONDS]


class GateNotificationBook(NotificationBook):
    """The checks of one gate that fail: one message for all of them, and one when all have passed for a while."""

    events = frozenset({NotificationEvent.GATE_DEGRADED, NotificationEvent.GATE_RECOVERED})
    """The events of its messages."""

    def __init__(self, subscriptions: Sequence[Subscription], gate: str) -> None:
        super().__init__(subscriptions)
        self._gate = gate

    def find_due(self, receiver: str, now: float) -> Notification | None:
        """Return the next message for a receiver, None if none is due or it has had as many as it may in an hour."""
        subscription = self._subscriptions[receiver]
        seconds = subscription.seconds.get(NotificationEvent.GATE_DEGRADED)
        if seconds is None or len(self._list_recent(receiver, now)) >= subscription.at_most:
            return None
        active = self._list_active()
        due = [each for each in active if _is_due(subscription, each, now)]
        if due:
            return self._describe_failing(active, due[0].since, receiver)
        reported = {key: entry.ended for key, entry in self._entries.items() if receiver in entry.notified}
        if not reported or any(ended is None or now < ended + seconds for ended in reported.values()):
            return None
        fields = {"gate": self._gate, "message": f"Gate {self._gate} works again."}
        return Notification(NotificationEvent.GATE_RECOVERED, sorted(reported), fields)

    def record_sent(self, receiver: str, notification: Notification, now: float) -> None:
        """Record that a receiver has a message, or will never take it."""
        super().record_sent(receiver, notification, now)
        if notification.event is not NotificationEvent.GATE_RECOVERED:
            return
        for key in notification.keys:
            entry = self._entries.get(key)
            if entry is not None and entry.ended is not None:
                entry.notified.discard(receiver)
                if not entry.notified:
                    del self._entries[key]

    def _end(self, key: str, now: float) -> None:
        """Remove a check that passes, or keep it for the message that the gate works again."""
        entry = self._entries[key]
        entry.ended = now if entry.ended is None else min(entry.ended, now)
        if not entry.notified or now - entry.ended > _ENDED_SECONDS:
            del self._entries[key]

    def _describe_failing(self, active: Sequence[_Active], since: float, receiver: str) -> Notification:
        """Return one message about all checks that fail now, those that are not due yet included."""
        shown = [each.condition.fields for each in active]
        texts = [f"{each['check']}: {each['reason'][:_MAX_REASON_LENGTH]}" for each in shown[:_MAX_SHOWN_CHECKS]]
        texts += [f"and {len(shown) - _MAX_SHOWN_CHECKS} more checks"] if len(shown) > _MAX_SHOWN_CHECKS else []
        fields = {"gate": self._gate, "since": _format_time(since)}
        fields["message"] = f"Gate {self._gate} has been degraded since {fields['since']}: {'; '.join(texts)}"
        keys = [each.key for each in active if receiver not in each.notified]
        return Notification(NotificationEvent.GATE_DEGRADED, keys, fields)


def _is_due(subscription: Subscription, active: _Active, now: float) -> bool:
    """Return whether a condition is there for as long as a receiver wants, and was not reported to it."""
    condition = active.condition
    seconds, cap = subscription.seconds.get(condition.event), condition.fields.get("cap")
    if seconds is None or subscription.name in active.notified:
        return False
    if cap is not None and subscription.caps and not any(matches(glob, cap) for glob in subscription.caps):
        return False
    if condition.event is NotificationEvent.OVERRIDE_ENDS:
        return now >= condition.ends_at - seconds
    return now >= active.since + seconds


def _describe(active: _Active) -> Notification:
    event, fields = active.condition.event, {**active.condition.fields, "since": _format_time(active.since)}
    return Notification(event, [active.key], {**fields, "message": _MESSAGES[event].format_map(_Texts(fields))})


_MESSAGES: Final[Mapping[NotificationEvent, str]] = {
    NotificationEvent.SOFT_LIMIT_CROSSED: "Cap {cap}{place}: {used} {resource} are used, above the soft limit {limit}.",
    NotificationEvent.CAP_FULL: "Cap {cap}{place} has been full since {since}: {used} of {limit} {resource} are used.",
    NotificationEvent.OVERRIDE_ENDS: "The override of cap {cap}{place} ends at {until}: {limit}.",
}


class _Texts(dict[str, str]):
    """The fields of a message, with the place of a cap in words; a field that is missing is empty."""

    def __missing__(self, name: str) -> str:
        if name != "place":
            return ""
        namespace, group = self.get("namespace"), self.get("group")
        if group:
            return f" of {group}"
        return f" in {namespace}" if namespace else ""


def _get_since(active: _Active) -> tuple[float, str]:
    return active.since, active.key


def _format_time(unix_time: float) -> str:
    return format_time(datetime.fromtimestamp(int(unix_time), UTC))
