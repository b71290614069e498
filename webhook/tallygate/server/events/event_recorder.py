"""The recorder of events on the owners of pods: it wraps the gate's `admit` and writes events in a worker.

Events are objects of core/v1. The writer uses PUT, which creates a missing event and updates the count of an existing
one: events are the kind for which that is allowed without a resourceVersion (AllowCreateOnUpdate and
AllowUnconditionalUpdate in kubernetes/pkg/registry/core/event/strategy.go, v1.36). In events.k8s.io/v1 the message of a
series could not change with the amounts in it (ValidateEventUpdate in pkg/apis/core/validation/events.go).

Series of events and their rate limits.

A series is one event for each owner, reason and code, with its count. Token buckets by key limit how often it is
written; the least recently used keys are dropped.
"""

import queue
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

import msgspec
from prometheus_client import CollectorRegistry, Counter

from tallygate.admission.kinds import ReviewTargets
from tallygate.admission.request import Phase
from tallygate.cluster.refusal_events import REPORTER
from tallygate.errors import TallygateError
from tallygate.gate.decisions import Decision
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.transport import Response
from tallygate.objects.meta import OwnerReference
from tallygate.review.owner_chain import OwnerChains, UnreadableOwnerError
from tallygate.review.scale_requests import WorkloadReader
from tallygate.server.events.event_message import EventMessage, Owner, create_event_message
from tallygate.server.interfaces import Admit
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.token_buckets import TokenBuckets, TokenRate
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

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


_TIMEOUT_SECONDS = 5.0
_MAX_ERROR_LENGTH = 500  # characters of a server's answer
_TERMINATING_CAUSE = b'"NamespaceTerminating"'  # a cause; k8s.io/api/core/v1, NamespaceTerminatingCause
_ENCODER = msgspec.json.Encoder()


class EventError(TallygateError):
    """An event was not written."""


class KubernetesEventWriter:
    """A writer of events to a cluster; `replica` is the name of this replica, for users to read."""

    def __init__(self, client_config: ClientConfig, replica: str) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS)
        self._replica = replica

    def write(self, event: Event) -> bool:
        """Create or update the event; return False if its namespace is deleted or terminating.

        Raises:
            EventError: if the event is not written; the text says why.
        """
        path = f"/api/v1/namespaces/{quote(event.message.namespace, safe='')}/events/{quote(event.name, safe='')}"
        body = _ENCODER.encode(self._create_object(event))
        try:
            response = self._client.replace(path, body, timeout=_TIMEOUT_SECONDS)
        except ApiError as error:
            raise EventError(str(error)) from error
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return True
        if response.status == HTTPStatus.NOT_FOUND or _TERMINATING_CAUSE in response.body:
            return False
        raise _create_error(response)

    def _create_object(self, event: Event) -> dict[str, Any]:
        message = event.message
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": message.namespace},
            "involvedObject": {**msgspec.to_builtins(message.owner), "namespace": message.namespace},
            "type": "Warning",
            "reason": message.reason,
            "message": message.text,
            "count": event.count,
            "firstTimestamp": _format_time(event.first_at),
            "lastTimestamp": _format_time(event.last_at),
            "source": {"component": REPORTER},
            "reportingComponent": REPORTER,
            "reportingInstance": self._replica,
        }


def _create_error(response: Response) -> EventError:
    text = f"the API server says {response.status}: {response.body[:_MAX_ERROR_LENGTH].decode(errors='replace')}"
    if response.status == HTTPStatus.FORBIDDEN:
        return EventError(f"{text}; the gate must be allowed to create and update events")
    return EventError(text)


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


RESULTS: Final = ("written", "terminating", "unverified", "failed", "limited", "full", "crashed")

_MAX_QUEUED: Final = 256
_IDLE_SECONDS: Final = 60.0  # each event wakes the worker


class OwnerVerifier:
    """A check of owners by live reads with the gate's rights; for one thread. `targets` are the known kinds."""

    def __init__(
        self, reader: WorkloadReader, targets: Callable[[], ReviewTargets], monotonic: Callable[[], float]
    ) -> None:
        self._chains = OwnerChains(reader, monotonic)
        self._targets = targets

    def is_stored(self, namespace: str, owner: Owner) -> bool:
        """Return whether the owner exists with its UID; False for a kind that is unknown or may not be read."""
        reference = OwnerReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
        try:
            return self._chains.read_controller(namespace, reference, self._targets()) is not None
        except UnreadableOwnerError:
            return False


class EventRecorder:
    """A recorder that writes denials and warnings as events on the owners of pods, in a worker.

    Events are no condition of readiness: a user who applies a pod gets every message in the response too.
    The sender of a review chooses the owner, and any client of the port can send one: so an event is written only if
    the owner exists with its UID (`is_stored`). `write` is `KubernetesEventWriter.write`; `process_name` is a name that
    no other process has.
    """

    def __init__(
        self,
        write: Callable[[Event], bool],
        is_stored: Callable[[str, Owner], bool],
        process_name: str,
        registry: CollectorRegistry,
        log: Logger,
    ) -> None:
        self._write = write
        self._is_stored = is_stored
        self._log = log
        self._correlator = EventCorrelator(process_name)
        self._lock = Lock()
        self._queue: queue.Queue[Event] = queue.Queue(_MAX_QUEUED)
        events = Counter(
            "tallygate_events", "Events on owners of pods, by what came of each.", ("result",), registry=registry
        )
        self._counters = {result: events.labels(result) for result in RESULTS}
        # The text of a failure names the event, so only the first failure after a success is logged.
        failure_log = FailureLog(partial(log.warning, "event-write-failed"), each_change=False)
        task = WorkerTask(name="events", run=self._write_next, failure_log=failure_log)
        self.worker = Worker(task, WorkerPace(interval=lambda: _IDLE_SECONDS))

    def wrap_admit(self, admit: Admit) -> Admit:
        """Return an `admit` that also records every decision with codes or warnings."""

        def admit_and_record(body: bytes, phase: Phase, deadline: float) -> Decision:
            decision = admit(body, phase, deadline)
            if decision.record.codes or decision.record.warnings:
                self.record(body, decision)
            return decision

        return admit_and_record

    def record(self, body: bytes, decision: Decision) -> None:
        """Queue an event about a decision, if it needs one. Never wait for the cluster, and never raise."""
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
                self.worker.wake()
        except queue.Full:
            self._counters["full"].inc()
        except Exception as crash:  # noqa: BLE001  # the answer stands, whatever is wrong with us
            self._counters["crashed"].inc()
            self._log.error("event-crashed", exc_info=crash)

    def _write_next(self) -> bool:
        """Write one queued event and count the result; wake the worker again if more are queued."""
        try:
            event = self._queue.get_nowait()
        except queue.Empty:
            return False
        if not self._queue.empty():
            self.worker.wake()
        result = "crashed"
        try:
            if not self._is_stored(event.message.namespace, event.message.owner):
                result = "unverified"
            else:
                result = "written" if self._write(event) else "terminating"
        except EventError:
            result = "failed"
            raise
        finally:
            self._counters[result].inc()
        return True
