"""A server that plays a script, and a clock that stands still until the code under test waits."""

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.reflector import Reflector, WatchTimeouts
from tallygate.kube.resource_codec import ResourceCodec, WatchEvent, parse_revision
from tallygate.kube.transport import Response, WatchStream
from tallygate.objects.core import Namespace

SILENCE = None
"""In a stream: no data, however long the reader waits."""

STREAM_RESET = ApiError(ApiErrorReason.RESET, "connection reset by peer")
"""In a stream: the connection breaks here."""


class Thing(NamedTuple):
    """The record of a watched object."""

    uid: str
    namespace: str
    name: str
    revision: int


def read_thing(item: Namespace) -> Thing:
    """Return the record of an object."""
    meta = item.metadata
    if meta is None or not meta.uid:
        raise ValueError("an object without uid")
    return Thing(meta.uid, meta.namespace or "", meta.name or "", parse_revision(meta.resource_version or ""))


THINGS = ResourceCodec("things", "/api/v1/things", Namespace, read_thing)
OPTIONAL_THINGS = ResourceCodec("rarities", "/api/v1/things", Namespace, read_thing, is_optional=True)
"""The same resource on a server that may not know it."""


class FakeClock:
    """A clock of seconds that passes only in `sleep` and in silent reads."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.sleeps.append(seconds)
        self.time += seconds


StreamPart = bytes | ApiError | None


class ScriptedStream:
    """A stream that plays its script, ends, and records whether it was closed."""

    def __init__(self, clock: FakeClock, script: Sequence[StreamPart]) -> None:
        self._clock = clock
        self._script = list(script)
        self.closed = False

    def read(self, timeout: float) -> bytes | None:
        """Return the next part, or None after `timeout` seconds of silence, which lasts for ever."""
        assert not self.closed
        if not self._script:
            return b""
        part = self._script[0]
        if part is SILENCE:
            self._clock.time += timeout
            return None
        self._script.pop(0)
        if isinstance(part, ApiError):
            raise part
        return part

    def replace_script(self, *script: StreamPart) -> None:
        """Replace the rest of the script."""
        self._script = list(script)

    def close(self) -> None:
        """Record that the stream was closed."""
        self.closed = True


Reply = Response | ApiError | Sequence[StreamPart]


@dataclass
class ScriptedServer:
    """A server that answers lists and watches from a script, in order, and requests for the revision separately.

    `default_stream` is the script of a watch if none is next in `script`; `latency_seconds` is the time of a response.
    """

    clock: FakeClock
    script: list[Reply]
    current_revision: int | ApiError | None = None
    default_stream: Sequence[StreamPart] | None = None
    latency_seconds: float = 0.0
    queries: list[dict[str, str]] = field(default_factory=list)
    streams: list[ScriptedStream] = field(default_factory=list)
    revision_requests: int = 0

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return a page of a list."""
        assert path == "/api/v1/things"
        self.clock.time += self.latency_seconds
        if query == {"limit": "1"}:
            self.revision_requests += 1
            if isinstance(self.current_revision, ApiError):
                raise self.current_revision
            assert self.current_revision is not None
            return list_page(self.current_revision)
        reply = self._next(query)
        assert isinstance(reply, Response)
        return reply

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return the stream of a watch, or an error response."""
        assert path == "/api/v1/things"
        assert query["allowWatchBookmarks"] == "true"
        if self.default_stream is not None and not (self.script and not isinstance(self.script[0], Response)):
            self.queries.append(dict(query))
            reply: Response | Sequence[StreamPart] = self.default_stream
        else:
            reply = self._next(query)
        if isinstance(reply, Response):
            return reply
        self.streams.append(ScriptedStream(self.clock, reply))
        return self.streams[-1]

    def _next(self, query: Mapping[str, str]) -> Response | Sequence[StreamPart]:
        self.queries.append(dict(query))
        assert self.script, f"unexpected request: {query}"
        reply = self.script.pop(0)
        if isinstance(reply, ApiError):
            raise reply
        return reply


def thing(name: str, revision: int) -> dict[str, Any]:
    """Return an object as the API server sends it."""
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(revision)}}


def record(name: str, revision: int) -> Thing:
    """Return the record of `thing(name, revision)`."""
    return Thing(f"uid-{name}", "", name, revision)


def list_page(revision: int, *items: dict[str, Any], next_page: str = "") -> Response:
    """Return a page of a list."""
    meta = {"resourceVersion": str(revision)} | ({"continue": next_page} if next_page else {})
    return Response(200, json.dumps({"kind": "List", "metadata": meta, "items": items}).encode())


def event_line(kind: str, item: dict[str, Any]) -> bytes:
    """Return a line of a watch."""
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(revision: int) -> bytes:
    """Return a bookmark, as the API server sends it: an object without a name."""
    return event_line(
        "BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(revision), "creationTimestamp": None}}
    )


def status(code: int, message: str = "it says why", **more: Any) -> dict[str, Any]:
    """Return a Status of the API server."""
    return {"kind": "Status", "status": "Failure", "message": message, "code": code} | more


def error_response(code: int, message: str = "it says why", retry_after: float | None = None, **more: Any) -> Response:
    """Return an error response with a Status."""
    return Response(code, msgspec.json.encode(status(code, message, **more)), retry_after)


@dataclass
class ReflectorRun:
    """A reflector and the scripted server that it watches."""

    server: ScriptedServer
    clock: FakeClock
    reflector: Reflector[Namespace, Thing]
    events: Generator[WatchEvent[Thing] | None]

    def next(self) -> WatchEvent[Thing]:
        """Return the next event."""
        return next(event for event in self.events if event is not None)

    def collect_for(self, seconds: float) -> list[WatchEvent[Thing]]:
        """Return the events of the next `seconds`."""
        end = self.clock.time + seconds
        events: list[WatchEvent[Thing]] = []
        while self.clock.time < end:
            event = next(self.events)
            if event is not None:
                events.append(event)
        return events


def create_reflector(
    *script: Reply,
    current_revision: int | None = None,
    timeouts: WatchTimeouts | None = None,
    codec: ResourceCodec[Namespace, Thing] = THINGS,
) -> ReflectorRun:
    """Create a reflector of a server that plays this script, whose newest revision is `current_revision`."""
    clock = FakeClock()
    server = ScriptedServer(clock, list(script), current_revision)
    reflector = Reflector(codec, server, clock, lambda: 0.5, timeouts)
    return ReflectorRun(server, clock, reflector, reflector.events())


def count_restarts(run: ReflectorRun) -> dict[ApiErrorReason, int]:
    """Return the number of restarts of lists and watches by reason."""
    return dict(run.reflector.get_status().restarts)
