"""The thread that writes events, and the gate's `admit` with an ear in it."""

import queue
import time
from contextlib import suppress
from threading import Event as Signal
from threading import Lock, Thread
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter

from webhook.admission.change import Phase
from webhook.gate.decisions import Decision
from webhook.server.events.said import create_event_message
from webhook.server.events.series import Event, EventCorrelator
from webhook.server.events.writing import EventError
from webhook.server.ports import Admit, ReadinessStatus
from webhook.server.reporting.logs import Logger

RESULTS: Final = ("written", "gone", "failed", "limited", "full", "crashed")

_MAX_QUEUED: Final = 256
_JOIN_SECONDS: Final = 6.0  # a call under way takes five


class EventWriter(Protocol):
    """Writes events somewhere."""

    def write(self, event: Event) -> bool:
        """Have it written; False when there is nowhere any more.

        Raises:
            EventError: it is not.
        """
        ...


class EventRecorder:
    """Says on owners what was said of their pods, in a thread of its own.

    `writer` is where to, `process` a name that no other process has.
    """

    def __init__(self, writer: EventWriter, process_name: str, registry: CollectorRegistry, log: Logger) -> None:
        self._writer = writer
        self._log = log
        self._correlator = EventCorrelator(process_name)
        self._lock = Lock()
        self._queue: queue.Queue[Event | None] = queue.Queue(_MAX_QUEUED)
        self._stop = Signal()
        self._failure = ""
        events = Counter(
            "tallygate_events", "Events on owners of pods, by what came of each.", ("result",), registry=registry
        )
        self._counters = {result: events.labels(result) for result in RESULTS}
        self._thread = Thread(target=self._run, name="events", daemon=True)

    def wrap_admit(self, admit: Admit) -> Admit:
        """The same gate, whose answers are listened to."""

        def admit_and_record(body: bytes, phase: Phase, deadline: float) -> Decision:
            decision = admit(body, phase, deadline)
            if decision.record.codes or decision.record.warnings:
                self.record(body, decision)
            return decision

        return admit_and_record

    def record(self, body: bytes, decision: Decision) -> None:
        """A review was answered. Never waits for the cluster, and never raises."""
        try:
            message = create_event_message(body, decision)
            if message is None:
                return
            with self._lock:
                event = self._correlator.correlate(message, time.monotonic(), time.time())
            if event is None:
                self._counters["limited"].inc()
            else:
                self._queue.put_nowait(event)
        except queue.Full:
            self._counters["full"].inc()
        except Exception as crash:  # noqa: BLE001  # the answer stands, whatever is wrong with us
            self._counters["crashed"].inc()
            self._log.error("event-crashed", exc_info=crash)

    def start(self) -> None:
        """Begin to write; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End; what still waits is left."""
        self._stop.set()
        if self._thread.is_alive():
            with suppress(queue.Full):  # then it need not be woken
                self._queue.put_nowait(None)
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Always ready: whoever applies a pod himself is told everything without events."""
        return ReadinessStatus("events", ready=True, detail={"failure": self._failure} if self._failure else {})

    def _run(self) -> None:
        while (event := self._queue.get()) is not None and not self._stop.is_set():
            try:
                is_written = self._writer.write(event)
            except EventError as error:
                self._count_result("failed", str(error))
            except Exception as crash:  # noqa: BLE001  # a fault of ours must not silence events for good
                self._count_result("crashed", f"{type(crash).__name__}: {crash}")
            else:
                self._count_result("written" if is_written else "gone", "")

    def _count_result(self, result: str, failure: str) -> None:
        """Count what came of one; log a failure when there was none before."""
        self._counters[result].inc()
        if failure and not self._failure:
            self._log.warning("events-not-written", message=failure)
        self._failure = failure
