"""The messages that follow from conditions: once each, never many, and the same ones after any restart."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tallygate.gate import notifications
from tallygate.gate.notifications import (
    Condition,
    GateNotificationBook,
    Notification,
    NotificationBook,
    NotificationEvent,
    NotificationRecord,
    ObservedConditions,
    Subscription,
)

SOFT, FULL = NotificationEvent.SOFT_LIMIT_CROSSED, NotificationEvent.CAP_FULL
ENDS, DEGRADED = NotificationEvent.OVERRIDE_ENDS, NotificationEvent.GATE_DEGRADED
NOW = 1_800_000_000.0
HOUR = 3600.0
FIELDS = {"cap": "gpus", "namespace": "team-a", "resource": "nvidia.com/gpu", "used": "7", "limit": "6"}
ALL = {SOFT: 0.0, FULL: 1800.0, ENDS: 86400.0, DEGRADED: 300.0}


def _create_condition(event: NotificationEvent = SOFT, ends_at: float = 0.0, **fields: str) -> Condition:
    return Condition(event=event, fields={**FIELDS, **fields}, ends_at=ends_at)


def _observe(book: NotificationBook, now: float, *unknown: str, **conditions: Condition) -> None:
    book.observe(ObservedConditions(conditions, frozenset(unknown)), now)


def _take(book: NotificationBook, now: float, receiver: str = "ops") -> Iterator[Notification]:
    """Yield each message that is due, as sent."""
    while (found := book.find_due(receiver, now)) is not None:
        book.record_sent(receiver, found, now)
        yield found


def _restart(book: NotificationBook, new: NotificationBook, now: float) -> NotificationBook:
    """Return a book of a process that reads the record of the one before."""
    content = msgspec.json.encode(book.create_record(now))
    new.restore(msgspec.json.decode(content, type=NotificationRecord), now)
    return new


def _list_texts(book: NotificationBook, now: float, receiver: str = "ops") -> list[str]:
    return [found.fields["message"] for found in _take(book, now, receiver)]


def test_a_crossed_soft_limit_is_reported_once_for_each_crossing() -> None:
    book = NotificationBook([Subscription("ops", ALL)])
    _observe(book, NOW, a=_create_condition())
    text = "Cap gpus in team-a: 7 nvidia.com/gpu are used, above the soft limit 6."
    assert _list_texts(book, NOW) == [text]
    _observe(book, NOW + 10, a=_create_condition(used="8"))
    assert _list_texts(book, NOW + 10) == []
    _observe(book, NOW + 20)
    _observe(book, NOW + 30, a=_create_condition())
    assert _list_texts(book, NOW + 30) == [text]


def test_a_full_cap_is_reported_once_it_was_full_for_so_long() -> None:
    book = NotificationBook([Subscription("ops", ALL)])
    _observe(book, NOW, a=_create_condition(FULL, group="team=vision"))
    assert _list_texts(book, NOW + 1799) == []
    (text,) = _list_texts(book, NOW + 1800)
    assert text == "Cap gpus of team=vision has been full since 2027-01-15T08:00Z: 7 of 6 nvidia.com/gpu are used."


def test_a_cap_that_was_full_for_less_is_not_reported() -> None:
    book = NotificationBook([Subscription("ops", ALL)])
    _observe(book, NOW, a=_create_condition(FULL))
    _observe(book, NOW + 1000)
    _observe(book, NOW + 1010, a=_create_condition(FULL))
    assert _list_texts(book, NOW + 2000) == []


def test_an_override_is_reported_within_the_time_before_its_end() -> None:
    book = NotificationBook([Subscription("ops", ALL)])
    override = _create_condition(ENDS, NOW + 90_000, limit="nvidia.com/gpu=12", until="2027-01-16T09:00Z")
    _observe(book, NOW, a=override)
    assert _list_texts(book, NOW) == []
    text = "The override of cap gpus in team-a ends at 2027-01-16T09:00Z: nvidia.com/gpu=12."
    assert _list_texts(book, NOW + 3600) == [text]
    assert _list_texts(book, NOW + 7200) == []


def test_what_is_not_known_neither_ends_nor_begins_again() -> None:
    book = NotificationBook([Subscription("ops", ALL)])
    _observe(book, NOW, a=_create_condition())
    assert len(_list_texts(book, NOW)) == 1
    _observe(book, NOW + 10, "a")
    _observe(book, NOW + 20, a=_create_condition())
    assert _list_texts(book, NOW + 20) == []


def test_each_receiver_has_its_events_caps_and_memory() -> None:
    receivers = [Subscription("ops", ALL), Subscription("gpus", {SOFT: 0.0}, ("gpu*",)), Subscription("none", {})]
    book = NotificationBook(receivers)
    _observe(book, NOW, a=_create_condition(), b=_create_condition(cap="licences"), c=_create_condition(FULL))
    assert len(_list_texts(book, NOW + 1800)) == 3
    assert [found.keys for found in _take(book, NOW + 1800, "gpus")] == [["a"]]
    assert _list_texts(book, NOW + 1800, "none") == []


def test_the_last_message_of_an_hour_sums_up_the_others() -> None:
    book = NotificationBook([Subscription("ops", ALL, at_most=3)])
    _observe(book, NOW, **{f"c{index}": _create_condition() for index in range(14)})
    assert [found.event for found in _take(book, NOW)] == [SOFT, SOFT, NotificationEvent.SUMMARY]
    _observe(book, NOW + 10, d=_create_condition(), **{f"c{index}": _create_condition() for index in range(14)})
    assert _list_texts(book, NOW + 3599) == []
    assert len(_list_texts(book, NOW + 3600)) == 1
    book = NotificationBook([Subscription("ops", ALL, at_most=1)])
    _observe(book, NOW, **{f"c{index}": _create_condition() for index in range(12)})
    assert _list_texts(book, NOW) == ["12 more: tallygate usage"]


def test_a_restart_repeats_nothing_and_loses_nothing() -> None:
    receivers = [Subscription("ops", ALL, at_most=2), Subscription("late", ALL)]
    book = NotificationBook(receivers)
    conditions = {"a": _create_condition(), "b": _create_condition(FULL)}
    _observe(book, NOW, **conditions)
    assert len(_list_texts(book, NOW)) == 1
    after = _restart(book, NotificationBook([Subscription("new", ALL), *receivers]), NOW + 900)
    assert _list_texts(after, NOW + 900, "late") == []  # nothing was observed yet
    _observe(after, NOW + 900, **conditions)
    assert _list_texts(after, NOW + 900) == []
    assert len(_list_texts(after, NOW + 900, "late")) == len(_list_texts(after, NOW + 900, "new")) == 1
    assert len(_list_texts(after, NOW + 1800)) == 1  # it has been full since before the restart
    _observe(after, NOW + 1801, c=_create_condition(), **conditions)
    assert _list_texts(after, NOW + 1801) == []  # the message before the restart counts


def test_a_record_of_a_clock_that_was_ahead_stops_no_message_for_good() -> None:
    book = NotificationBook([Subscription("ops", ALL, at_most=1)])
    _observe(book, NOW + 100 * HOUR, a=_create_condition())
    assert len(_list_texts(book, NOW + 100 * HOUR)) == 1
    after = _restart(book, NotificationBook([Subscription("ops", ALL, at_most=1)]), NOW)
    _observe(after, NOW, b=_create_condition(FULL))
    assert _list_texts(after, NOW + 1799) == []
    assert len(_list_texts(after, NOW + HOUR)) == 1


def test_a_clock_that_was_ahead_stops_no_message_of_this_process_for_good() -> None:
    book = NotificationBook([Subscription("ops", ALL, at_most=1)])
    _observe(book, NOW + 100 * HOUR, a=_create_condition())
    assert len(_list_texts(book, NOW + 100 * HOUR)) == 1
    _observe(book, NOW, a=_create_condition(), b=_create_condition())
    assert _list_texts(book, NOW) == []
    _observe(book, NOW + HOUR, a=_create_condition(), b=_create_condition())
    assert len(_list_texts(book, NOW + HOUR)) == 1


def test_conditions_beyond_the_bound_of_a_record_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "MAX_CONDITIONS", 3)
    book = NotificationBook([Subscription("ops", ALL)])
    conditions = {f"c{index}": _create_condition() for index in range(5)}
    _observe(book, NOW, **conditions)
    assert (book.left_out, len(_list_texts(book, NOW))) == (2, 3)
    assert len(_restart(book, NotificationBook([Subscription("ops", ALL)]), NOW).create_record(NOW).conditions) == 3


def test_a_full_record_fits_into_the_annotations_of_an_object() -> None:
    names = [f"receiver-{index}" for index in range(notifications.MAX_RECEIVERS)]
    book = NotificationBook([Subscription(name, ALL, at_most=notifications.MAX_AT_MOST) for name in names])
    keys = [notifications.create_condition_key(str(index)) for index in range(notifications.MAX_CONDITIONS + 1)]
    _observe(book, NOW, **dict.fromkeys(keys, _create_condition()))
    assert book.left_out == 1
    assert {len(list(_take(book, NOW, name))) for name in names} == {notifications.MAX_AT_MOST}
    assert len(msgspec.json.encode(book.create_record(NOW))) < 170_000


def _create_check(name: str, reason: str = "it fails") -> Condition:
    return Condition(event=DEGRADED, fields={"check": name, "reason": reason})


def test_a_degraded_gate_and_its_recovery_are_reported_once_each() -> None:
    book = GateNotificationBook([Subscription("ops", ALL, ("no-cap",))], "gate-1")
    _observe(book, NOW, w=_create_check("watches", "pods are stale"))
    _observe(book, NOW + 290, w=_create_check("watches"), l=_create_check("ledgers", "refused"))
    assert _list_texts(book, NOW + 299) == []
    text = "Gate gate-1 has been degraded since 2027-01-15T08:00Z: watches: it fails; ledgers: refused"
    assert _list_texts(book, NOW + 300) == [text]
    _observe(book, NOW + 600, l=_create_check("ledgers"))
    _observe(book, NOW + 610)
    assert _list_texts(book, NOW + 905) == []
    assert _list_texts(book, NOW + 910) == ["Gate gate-1 works again."]
    assert _list_texts(book, NOW + 2000) == []
    assert book.create_record(NOW).conditions == {}


def test_a_check_that_fails_again_soon_is_the_same_failure() -> None:
    book = GateNotificationBook([Subscription("ops", ALL)], "gate-1")
    _observe(book, NOW, w=_create_check("watches"))
    assert len(_list_texts(book, NOW + 300)) == 1
    for time in (400, 500, 600):
        _observe(book, NOW + time)
        _observe(book, NOW + time + 50, w=_create_check("watches"))
    assert _list_texts(book, NOW + 2000) == []


def test_a_gate_that_restarts_reports_its_recovery() -> None:
    book = GateNotificationBook([Subscription("ops", ALL)], "gate-1")
    _observe(book, NOW, w=_create_check("watches"))
    assert len(_list_texts(book, NOW + 300)) == 1
    after = _restart(book, GateNotificationBook([Subscription("ops", ALL)], "gate-1"), NOW + 310)
    _observe(after, NOW + 310)
    again = _restart(after, GateNotificationBook([Subscription("ops", ALL)], "gate-1"), NOW + 400)
    _observe(again, NOW + 400)
    assert _list_texts(again, NOW + 609) == []
    assert _list_texts(again, NOW + 610) == ["Gate gate-1 works again."]


def test_a_recovery_that_no_receiver_takes_is_dropped_after_a_day() -> None:
    book = GateNotificationBook([Subscription("ops", ALL)], "gate-1")
    _observe(book, NOW, w=_create_check("watches"))
    assert len(_list_texts(book, NOW + 300)) == 1
    _observe(book, NOW + 400)
    _observe(book, NOW + 400 + 24 * HOUR + 1)
    assert book.create_record(NOW).conditions == {}


def test_a_gate_that_fails_again_and_again_sends_as_many_messages_as_a_receiver_takes() -> None:
    subscriptions = [Subscription("ops", ALL, at_most=3), Subscription("caps-only", {SOFT: 0.0})]
    book = GateNotificationBook(subscriptions, "gate-1")
    texts = []
    for start in (NOW, NOW + 800, NOW + 1600, NOW + 2400):
        _observe(book, start, w=_create_check("watches"))
        texts += _list_texts(book, start + 300)
        _observe(book, start + 301)
        texts += _list_texts(book, start + 700)
    assert [text.split()[2] for text in texts] == ["has", "works", "has"]
    assert _list_texts(book, NOW + 300 + HOUR - 1) == []
    assert _list_texts(book, NOW + 300 + HOUR) == ["Gate gate-1 works again."]
    assert _list_texts(book, NOW + 300 + HOUR, "caps-only") == []


def test_many_failing_checks_make_one_short_message() -> None:
    book = GateNotificationBook([Subscription("ops", ALL)], "gate-1")
    _observe(book, NOW, **{f"c{index}": _create_check(f"check-{index}", "x" * 5000) for index in range(8)})
    (text,) = _list_texts(book, NOW + 300)
    assert text.endswith("; and 3 more checks")
    assert len(text) < 1700


_KEYS = ("soft-a", "soft-b", "soft-c", "full-a")
_AT_MOST = 3
_SETTINGS = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_MUTANT_SETTINGS = settings(
    _SETTINGS, max_examples=3000, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False
)


class NotifiedReceivers(RuleBasedStateMachine):
    """Two receivers, of which one may be away, and a sender that ends at any point after what it sent was recorded."""

    create_book: Callable[[list[Subscription]], NotificationBook] = NotificationBook

    def __init__(self) -> None:
        super().__init__()
        wanted = {SOFT: 0.0, FULL: 600.0}
        self.subscriptions = [Subscription("ops", wanted, at_most=_AT_MOST), Subscription("late", wanted)]
        self.now = NOW
        self.book = type(self).create_book(self.subscriptions)
        self.began: dict[str, float] = {}
        self.is_late_away = False
        self.is_known = True
        self.reported: dict[tuple[str, str], int] = {}
        self.sent: list[float] = []

    def _create_conditions(self) -> dict[str, Condition]:
        return {key: _create_condition(FULL if key.startswith("full") else SOFT) for key in self.began}

    @rule(seconds=st.sampled_from([1.0, 60.0, 700.0, 1300.0, 3700.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass; the sender looks soon after it."""
        self.now += seconds
        self.observe()

    @rule(key=st.sampled_from(_KEYS))
    def begin(self, key: str) -> None:
        """Begin a condition."""
        if key not in self.began:
            self.began[key] = self.now
            self.reported.update({(receiver.name, key): 0 for receiver in self.subscriptions})
            self.observe()

    @rule(key=st.sampled_from(_KEYS))
    def end(self, key: str) -> None:
        """End a condition."""
        if self.is_known and self.began.pop(key, None) is not None:
            self.observe()

    @rule(is_away=st.booleans())
    def move(self, *, is_away: bool) -> None:
        """Let one receiver be out of reach, or come back."""
        self.is_late_away = is_away

    @rule(is_known=st.booleans())
    def know(self, *, is_known: bool) -> None:
        """Let the ledgers be known or not: nothing ends while they are not."""
        self.is_known = is_known

    @rule()
    def restart(self) -> None:
        """End the sender; another one reads the record."""
        self.book = _restart(self.book, type(self).create_book(self.subscriptions), self.now)
        self.observe()

    def observe(self) -> None:
        """Give the book what is known now."""
        conditions = self._create_conditions() if self.is_known else {}
        self.book.observe(ObservedConditions(conditions, frozenset() if self.is_known else set(_KEYS)), self.now)

    @invariant()
    def send(self) -> None:
        """Send what is due: each message once, after its time, and no more of them than a receiver may get."""
        for name in ("ops",) if self.is_late_away else ("ops", "late"):
            for found in _take(self.book, self.now, name):
                for key in found.keys:
                    self.reported[name, key] += 1
                    assert self.reported[name, key] == 1, "a message came twice"
                    seconds = 600.0 if key.startswith("full") else 0.0
                    assert self.now >= self.began[key] + seconds, "a message came too early"
                if name == "ops":
                    self.sent.append(self.now)
        assert len([time for time in self.sent if time > self.now - HOUR]) <= _AT_MOST, "more than it may get"

    def teardown(self) -> None:
        """Wait until all may be sent: whatever is still there was reported to both receivers."""
        self.is_late_away, self.is_known = False, True
        for _ in range(2):
            self.now += HOUR + 1
            self.observe()
            self.send()
        missing = [name for (name, key), count in self.reported.items() if key in self.began and not count]
        assert not missing, "a message is lost"


def test_messages_come_once_each_and_never_many_under_every_schedule() -> None:
    run_state_machine_as_test(NotifiedReceivers, settings=_SETTINGS)


class _ForgetfulBook(NotificationBook):
    """A mutant whose record has the conditions without the receivers that have their messages."""

    def create_record(self, now: float) -> NotificationRecord:
        record = super().create_record(now)
        conditions = {key: msgspec.structs.replace(each, notified=0) for key, each in record.conditions.items()}
        return msgspec.structs.replace(record, conditions=conditions)


class _ReceiverlessBook(NotificationBook):
    """A mutant that takes a message to one receiver as one to all."""

    def record_sent(self, receiver: str, notification: Notification, now: float) -> None:
        super().record_sent(receiver, notification, now)
        for name in self._subscriptions.keys() - {receiver}:
            super().record_sent(name, notification, now)


class _CertainBook(NotificationBook):
    """A mutant that takes what is unknown as ended."""

    def observe(self, observed: ObservedConditions, now: float) -> None:
        super().observe(ObservedConditions(observed.conditions), now)


class _UncountedBook(NotificationBook):
    """A mutant whose record has no times of messages."""

    def create_record(self, now: float) -> NotificationRecord:
        return msgspec.structs.replace(super().create_record(now), sent={})


class _UnsummedBook(NotificationBook):
    """A mutant that reports a part of what is due as all of it."""

    def find_due(self, receiver: str, now: float) -> Notification | None:
        found = super().find_due(receiver, now)
        if found is not None and found.event is NotificationEvent.SUMMARY:
            self.record_sent(receiver, found._replace(keys=found.keys[1:]), now)
            return found._replace(keys=found.keys[:1])
        return found


class _RepeatingBook(NotificationBook):
    """A mutant that begins a condition again at each restart, as if it were new."""

    def restore(self, record: NotificationRecord, now: float) -> None:
        super().restore(msgspec.structs.replace(record, conditions={}), now)


class _HastyBook(NotificationBook):
    """A mutant that counts the time of a condition from an hour before its begin."""

    def find_due(self, receiver: str, now: float) -> Notification | None:
        return super().find_due(receiver, now + HOUR)


@pytest.mark.parametrize(
    "mutant",
    [
        _ForgetfulBook,
        _ReceiverlessBook,
        _CertainBook,
        _UncountedBook,
        _UnsummedBook,
        _RepeatingBook,
        _HastyBook,
    ],
)
def test_a_wrong_book_is_found(mutant: Any) -> None:
    machine = type("Machine", (NotifiedReceivers,), {"create_book": mutant})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=_MUTANT_SETTINGS)
