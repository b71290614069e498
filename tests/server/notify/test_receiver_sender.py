"""The sender of a receiver: what it sends, counts and logs, and how long it waits after failures."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tallygate.gate.notifications import Notification, NotificationEvent
from tallygate.server.notify.notify_config import Receiver
from tallygate.server.notify.receiver_sender import NotificationMetrics, ReceiverSender
from tallygate.server.notify.webhook_request import NotifyError
from tests.server.app_harness import Log


class MemoryOutlet:
    """Messages that are due until they are recorded."""

    def __init__(self, count: int) -> None:
        event = NotificationEvent.CAP_FULL
        self.due = [Notification(event, [str(number)], {"message": f"m{number}"}) for number in range(count)]

    def find_due(self, _: str) -> Notification | None:
        """Return the first one."""
        return self.due[0] if self.due else None

    def record_sent(self, _: str, notification: Notification) -> None:
        """Remove a message."""
        self.due.remove(notification)


class MemoryRequests:
    """Requests that fail as a test wants, then succeed."""

    def __init__(self, failures: Sequence[NotifyError | None] = ()) -> None:
        self.failures = list(failures)
        self.bodies: list[Any] = []

    def send(self, body: bytes) -> None:
        """Record a body, or raise the next error."""
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.bodies.append(msgspec.json.decode(body))

    def close(self) -> None:
        """Do nothing."""


class _Fixture:
    """A sender with its time, its log and its metrics."""

    def __init__(self, count: int, *failures: NotifyError | None, **fields: Any) -> None:
        self.now, self.log = 1000.0, Log()
        self.outlet, self.requests = MemoryOutlet(count), MemoryRequests(failures)
        self.registry = CollectorRegistry()
        self.sender = ReceiverSender(
            Receiver(name="ops", url_file="x", **fields),
            "prod",
            outlet=self.outlet,
            requests=self.requests,
            metrics=NotificationMetrics(self.registry, ["ops"]),
            log=self.log.logger,
            monotonic=lambda: self.now,
        )

    def count(self) -> tuple[float | None, ...]:
        """Return the messages that were sent, failed and rejected."""
        return tuple(
            self.registry.get_sample_value("tallygate_notifications_total", {"receiver": "ops", "result": result})
            for result in ("sent", "failed", "rejected")
        )


def test_all_messages_that_are_due_are_sent_at_once() -> None:
    fixture = _Fixture(3)
    assert fixture.count() == (0, 0, 0)
    assert fixture.sender.send_due()
    assert not fixture.sender.send_due()
    assert [body["message"] for body in fixture.requests.bodies] == ["prod: m0", "prod: m1", "prod: m2"]
    assert fixture.requests.bodies[0]["event"] == "capFull"
    assert fixture.count() == (3, 0, 0)
    line = {"event": "notification-sent", "receiver": "ops", "notification": "capFull", "level": "info"}
    assert [{name: each[name] for name in line} for each in fixture.log.lines] == [line] * 3


def test_an_own_body_takes_the_place_of_that_of_the_format() -> None:
    fixture = _Fixture(1, format="slack", body={"blocks": ["${message}"]})
    fixture.sender.send_due()
    assert fixture.requests.bodies == [{"blocks": ["prod: m0"]}]


def test_the_wait_doubles_with_each_failure_up_to_ten_minutes_and_ends_with_a_success() -> None:
    fixture = _Fixture(1, *[NotifyError("it answers 500")] * 9)
    failed_at = []
    while fixture.requests.failures:
        with suppress(NotifyError):
            fixture.sender.send_due()
            fixture.now += 1
            continue
        failed_at.append(fixture.now)
    waits = [after - before for before, after in pairwise(failed_at)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    fixture.now += 600
    assert fixture.sender.send_due()
    fixture.outlet.due = MemoryOutlet(1).due
    fixture.requests.failures = [NotifyError("it answers 500")] * 2
    for seconds in (10, 0):
        with pytest.raises(NotifyError):
            fixture.sender.send_due()
        fixture.now += seconds


def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    fixture = _Fixture(1, NotifyError("it answers 429", retry_after=1800.0))
    fixture.sender.worker.run_once()
    fixture.now += 1799
    assert not fixture.sender.send_due()
    assert fixture.sender.failure == "it answers 429"
    fixture.now += 1
    fixture.sender.worker.run_once()
    assert fixture.sender.failure == ""
    assert fixture.count() == (1, 1, 0)
    failed, _, recovered = fixture.log.lines
    assert (failed["event"], failed["receiver"], failed["message"]) == ("notification-failed", "ops", "it answers 429")
    assert (recovered["event"], recovered["receiver"]) == ("notification-recovered", "ops")


def test_a_message_that_is_never_taken_keeps_no_other_back() -> None:
    fixture = _Fixture(2, NotifyError("it answers 400", is_final=True))
    fixture.sender.worker.run_once()
    assert [body["message"] for body in fixture.requests.bodies] == ["prod: m1"]
    assert fixture.count() == (1, 0, 1)
    rejected = fixture.log.lines[0]
    assert (rejected["event"], rejected["level"], rejected["message"]) == (
        "notification-rejected",
        "error",
        "it answers 400",
    )
