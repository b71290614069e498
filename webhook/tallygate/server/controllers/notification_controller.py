"""The controller that finds what is to be reported, and keeps the record of what was.

The leader reports caps, and each replica reports itself. A message is recorded after it was sent: if the record cannot
be written, the next leader sends the message again, so none is lost, and this process repeats none.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock, Thread
from typing import Final, Protocol

import msgspec

from tallygate.errors import TallygateError
from tallygate.gate.notifications import (
    GateNotificationBook,
    Notification,
    NotificationBook,
    NotificationRecord,
    ObservedConditions,
    Subscription,
)
from tallygate.gate.notified_conditions import list_gate_conditions
from tallygate.server.interfaces import SERVING, ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.notification_record_store import NotificationRecords

_NAME: Final = "notifications"
_INTERVAL_SECONDS: Final = 5.0
_REST_SECONDS: Final = 0.2
_RECORD_SECONDS: Final = 60.0  # between two records of conditions alone
_JOIN_SECONDS: Final = 2.0

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(NotificationRecord)


class StoresNotificationRecords(Protocol):
    """A store of records: `tallygate.state.kubernetes.notification_record_store.NotificationRecordStore`."""

    def read(self) -> NotificationRecords:
        """Return the records."""
        ...

    def write(self, replica: str, own: bytes, caps: bytes | None) -> bool:
        """Store the record of a replica, and that about caps if there is one; return False after a conflict."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...


class Sender(Protocol):
    """The sender of one receiver: `tallygate.server.notify.receiver_sender.ReceiverSender`."""

    worker: Worker

    @property
    def name(self) -> str:
        """The name of the receiver."""
        ...

    @property
    def failure(self) -> str:
        """Why the last message was not taken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSource:
    """The parts of the gate that are reported.

    Args:
        replica: the name of this replica, which stays when its container starts again.
        list_cap_conditions: returns the conditions of caps at a time; None while the namespaces are not known.
        list_statuses: returns the results of all readiness checks.
        is_leader: returns whether this replica reports caps.
        now: returns the present time.
        monotonic: returns seconds.
    """

    replica: str
    list_cap_conditions: Callable[[datetime], ObservedConditions | None]
    list_statuses: Callable[[], Iterable[ReadinessStatus]]
    is_leader: Callable[[], bool]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class NotificationController:
    """The background part of messages: a worker that looks each 5 s, and a sender for each receiver."""

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        source: NotificationSource,
        store: StoresNotificationRecords,
        log: Logger,
    ) -> None:
        self._subscriptions = subscriptions
        self._source = source
        self._store = store
        self._log = log
        self._lock = Lock()
        self._gate_book = GateNotificationBook(subscriptions, source.replica)
        self._cap_book: NotificationBook | None = None
        self._is_own_read = False
        self._is_urgent = False
        self._recorded_own = self._recorded_caps = b""
        self._recorded_at = source.monotonic()
        self._left_out = 0
        self._senders: Sequence[Sender] = ()
        task = WorkerTask(
            name=_NAME,
            run=self.run,
            failure_log=FailureLog(
                partial(log.warning, "notification-record-failed"), partial(log.info, "notification-record-recovered")
            ),
            finish=self._finish,
        )
        self._failure_log = task.failure_log
        self._worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_REST_SECONDS))

    def add_senders(self, senders: Sequence[Sender]) -> None:
        """Add the senders, which ask this controller for their messages; call once only, before `start`."""
        self._senders = senders

    def start(self) -> None:
        """Start all threads; call once only."""
        self._worker.start()
        for sender in self._senders:
            sender.worker.start()

    def stop(self) -> None:
        """Stop all threads, and write the last record. The senders end at a time; one that looks up a name is left."""
        threads = [Thread(target=sender.worker.stop, daemon=True) for sender in self._senders]
        for thread in threads:
            thread.start()
        deadline = self._source.monotonic() + _JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - self._source.monotonic()))
        self._worker.stop()

    def check(self) -> ReadinessStatus:
        """Return a status that is always ready, with the receivers that do not take messages."""
        failing = {sender.name: sender.failure for sender in self._senders if sender.failure}
        detail: dict[str, object] = {"receivers": len(self._senders)} | ({"failing": failing} if failing else {})
        if self._left_out:
            detail["leftOut"] = self._left_out
        if self._failure_log.failure:
            detail["failure"] = self._failure_log.failure
        return ReadinessStatus(_NAME, ready=True, detail=detail)

    def find_due(self, receiver: str) -> Notification | None:
        """Return the next message for a receiver, None if none is due; about caps on the leader alone."""
        now = self._source.now().timestamp()
        with self._lock:
            found = self._gate_book.find_due(receiver, now)
            if found is None and self._cap_book is not None and self._source.is_leader():
                found = self._cap_book.find_due(receiver, now)
        return found

    def record_sent(self, receiver: str, notification: Notification) -> None:
        """Record that a receiver has a message, or will never take it."""
        now = self._source.now().timestamp()
        with self._lock:
            is_own = notification.event in GateNotificationBook.events
            book = self._gate_book if is_own else self._cap_book
            if book is not None:  # else another replica leads by now
                book.record_sent(receiver, notification, now)
            self._is_urgent = True
        self._worker.wake()

    def run(self) -> bool:
        """Look for conditions, let the senders send what is due, and write the record.

        Raises:
            TallygateError: if a record cannot be read or written; the next run tries again. What needs no record is
                sent all the same.
        """
        failure: TallygateError | None = None
        now = self._source.now()
        self._observe_gate(now)
        try:
            self._read_records(now.timestamp())
        except TallygateError as error:
            failure = error
        self._observe_caps(now)
        for sender in self._senders:
            sender.worker.wake()
        if failure is not None:
            raise failure
        self._write_records(now.timestamp())
        return True

    def _observe_gate(self, now: datetime) -> None:
        statuses = [each for each in self._source.list_statuses() if each.name not in (_NAME, SERVING)]
        observed = list_gate_conditions(((each.name, each.ready, each.detail) for each in statuses), now)
        with self._lock:
            self._gate_book.observe(observed, now.timestamp())

    def _read_records(self, now: float) -> None:
        """Read what was sent before: once about this replica, and about caps when this replica becomes the leader."""
        is_leader = self._source.is_leader()
        if not is_leader:
            with self._lock:
                self._cap_book = None
        if self._is_own_read and (not is_leader or self._cap_book is not None):
            return
        records = self._store.read()
        with self._lock:
            if not self._is_own_read:
                self._recorded_own = records.replicas.get(self._source.replica, b"")
                self._gate_book.restore(_decode(self._recorded_own), now)
                self._is_own_read = True
            if is_leader and self._cap_book is None:
                self._recorded_caps, self._cap_book = records.caps, NotificationBook(self._subscriptions)
                self._cap_book.restore(_decode(records.caps), now)

    def _observe_caps(self, now: datetime) -> None:
        book = self._cap_book
        observed = None if book is None else self._source.list_cap_conditions(now)
        if book is None or observed is None:
            return
        with self._lock:
            book.observe(observed, now.timestamp())
        if book.left_out and not self._left_out:
            self._log.warning("notifications-left-out", number=book.left_out)
        self._left_out = book.left_out

    def _write_records(self, now: float) -> None:
        """Write the records at once after a message, and once a minute if conditions alone have changed."""
        with self._lock:
            is_urgent, self._is_urgent = self._is_urgent, False
            own = _encode(self._gate_book.create_record(now))
            caps = None if self._cap_book is None else _encode(self._cap_book.create_record(now))
        if not self._source.is_leader():
            caps = None
        if own == self._recorded_own and caps in (None, self._recorded_caps):
            return
        monotonic = self._source.monotonic()
        if not is_urgent and monotonic < self._recorded_at + _RECORD_SECONDS:
            return
        self._recorded_at = monotonic
        is_written = False
        try:
            is_written = self._store.write(self._source.replica, own, caps)
        finally:
            self._is_urgent |= is_urgent and not is_written
        if is_written:
            self._recorded_own, self._recorded_caps = own, self._recorded_caps if caps is None else caps

    def _finish(self) -> None:
        """Write what was sent last, before another replica leads."""
        with suppress(TallygateError):
            if self._is_own_read:
                self._write_records(self._source.now().timestamp())
        self._store.close()


def _encode(record: NotificationRecord) -> bytes:
    """Return a record in JSON; b"" for one without conditions and messages."""
    return _ENCODER.encode(record) if record.conditions or record.sent else b""


def _decode(content: bytes) -> NotificationRecord:
    """Return a record; an empty one without content, or if it is not as written."""
    try:
        return _DECODER.decode(content) if content else NotificationRecord()
    except (ValueError, RecursionError):
        return NotificationRecord()
