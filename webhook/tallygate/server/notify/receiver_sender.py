"""The sender of one receiver: a thread of its own that sends what is due, and waits longer after each failure."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter

from tallygate.gate.notifications import Notification
from tallygate.server.notify.message_body import BODIES, render_body
from tallygate.server.notify.notify_config import NotifyConfig, Receiver
from tallygate.server.notify.webhook_request import NotifyError, WebhookRequests
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.telemetry.metrics import Telemetry
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

_INTERVAL_SECONDS: Final = 10.0
_BACK_OFF_SECONDS: Final = 10.0
_MAX_BACK_OFF_SECONDS: Final = 600.0
_MAX_DOUBLINGS: Final = 10
_RESULTS: Final = ("sent", "failed", "rejected")


class Outlet(Protocol):
    """The messages that are due; for any thread."""

    def find_due(self, receiver: str) -> Notification | None:
        """Return the next message for a receiver, None if none is due."""
        ...

    def record_sent(self, receiver: str, notification: Notification) -> None:
        """Record that a receiver has a message, or will never take it."""
        ...


class SendsBodies(Protocol):
    """The requests to one receiver: `tallygate.server.notify.webhook_request.WebhookRequests`."""

    def send(self, body: bytes) -> None:
        """Send a body; it raises NotifyError."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...


class NotificationMetrics:
    """The counter of messages by receiver and result: `sent`, `failed` (it is tried again), or `rejected` for good."""

    def __init__(self, registry: CollectorRegistry, receivers: Sequence[str]) -> None:
        self._results = Counter(
            "tallygate_notifications",
            "Messages to receivers, by result.",
            ("receiver", "result"),
            registry=registry,
        )
        for receiver in receivers:
            for result in _RESULTS:
                self._results.labels(receiver, result)

    def count(self, receiver: str, result: str) -> None:
        """Count an attempt to send a message."""
        self._results.labels(receiver, result).inc()


class ReceiverSender:
    """The worker that sends to one receiver. `monotonic` returns seconds; `cluster` begins each message."""

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        receiver: Receiver,
        cluster: str,
        *,
        outlet: Outlet,
        requests: SendsBodies,
        metrics: NotificationMetrics,
        log: Logger,
        monotonic: Callable[[], float],
    ) -> None:
        self._receiver = receiver
        self._cluster = cluster
        self._outlet = outlet
        self._requests = requests
        self._metrics = metrics
        self._log = log
        self._monotonic = monotonic
        self._failures = 0  # in succession
        self._not_before = monotonic()
        name = receiver.name
        self._failure_log = FailureLog(
            partial(log.warning, "notification-failed", receiver=name),
            partial(log.info, "notification-recovered", receiver=name),
        )
        task = WorkerTask(
            name=f"notify-{name}", run=self.send_due, failure_log=self._failure_log, interrupt=requests.close
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS))

    @property
    def name(self) -> str:
        """The name of the receiver."""
        return self._receiver.name

    @property
    def failure(self) -> str:
        """Why the last message was not taken; empty if it was."""
        return self._failure_log.failure

    def send_due(self) -> bool:
        """Send all messages that are due; return False if there are none, or it is too early after a failure.

        Raises:
            NotifyError: if the receiver does not take one; it is due again later.
        """
        has_sent = False
        while not self.worker.is_stopping and self._monotonic() >= self._not_before:
            notification = self._outlet.find_due(self.name)
            if notification is None:
                break
            self._send(notification)
            has_sent = True
        return has_sent

    def _send(self, notification: Notification) -> None:
        event, fields = notification.event.value, dict(notification.fields)
        template = BODIES[self._receiver.format] if self._receiver.body is None else self._receiver.body
        body = render_body(template, self._receiver.format, fields | {"event": event, "cluster": self._cluster})
        try:
            self._requests.send(body)
        except NotifyError as error:
            if not error.is_final:
                self._metrics.count(self.name, "failed")
                self._wait(error.retry_after)
                raise
            self._metrics.count(self.name, "rejected")
            self._log.error("notification-rejected", receiver=self.name, notification=event, message=str(error))
        else:
            self._metrics.count(self.name, "sent")
            self._log.info("notification-sent", receiver=self.name, notification=event)
        self._failures = 0
        self._outlet.record_sent(self.name, notification)

    def _wait(self, retry_after: float) -> None:
        """Wait after a failure: twice as long after each, up to 10 minutes, or as long as the receiver asks for."""
        seconds = _BACK_OFF_SECONDS * 2.0 ** min(self._failures, _MAX_DOUBLINGS)
        self._failures += 1
        self._not_before = self._monotonic() + max(min(seconds, _MAX_BACK_OFF_SECONDS), retry_after)


def create_senders(config: NotifyConfig, outlet: Outlet, telemetry: Telemetry) -> Sequence[ReceiverSender]:
    """Return a sender for each receiver, with their metrics."""
    metrics = NotificationMetrics(telemetry.metrics.registry, [receiver.name for receiver in config.receivers])
    return [
        ReceiverSender(
            receiver,
            config.cluster,
            outlet=outlet,
            requests=WebhookRequests(receiver),
            metrics=metrics,
            log=telemetry.log,
            monotonic=time.monotonic,
        )
        for receiver in config.receivers
    ]
