"""A server that plays a script, and a clock that stands still until somebody waits."""

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.reflector import Reflector, WatchTimeouts
from webhook.kube.resource_codec import ResourceCodec, WatchEvent, parse_revision
from webhook.kube.transport import Response, WatchStream
from webhook.objects.core import Namespace

SILENCE = None
"""In a stream: nothing comes for as long as anybody waits."""

STREAM_RESET = ApiError(ApiErrorReason.RESET, "connection reset by peer")
"""In a stream: it breaks off here."""


class Thing(NamedTuple):
    """What the tests follow: a name that stands for itself."""

    uid: str
    namespace: str
    name: str
    revision: int


def digest(read: Namespace) -> Thing:
    """A row of an object."""
    meta = read.metadata
    if meta is None or not meta.uid:
        raise ValueError("an object without uid")
    return Thing(meta.uid, meta.namespace or "", meta.name or "", parse_revision(meta.resource_version or ""))


THINGS = ResourceCodec("things", "/api/v1/things", Namespace, digest)
RARITIES = ResourceCodec("rarities", "/api/v1/things", Namespace, digest, is_optional=True)
"""The same, of a server that may not know them."""


class FakeClock:
    """Seconds since the test began."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        """The time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let it pass."""
        self.sleeps.append(seconds)
        self.time += seconds


Told = bytes | ApiError | None


class Played:
    """A stream that plays what was written for it, ends, and knows whether it was closed."""

    def __init__(self, clock: FakeClock, script: Sequence[Told]) -> None:
        self._clock = clock
        self._script = list(script)
        self.closed = False

    def read(self, timeout: float) -> bytes | None:
        """The next thing; silence lasts for ever."""
        assert not self.closed
        if not self._script:
            return b""
        told = self._script[0]
        if told is SILENCE:
            self._clock.time += timeout
            return None
        self._script.pop(0)
        if isinstance(told, ApiError):
            raise told
        return told

    def goes_on(self, *script: Told) -> None:
        """Play this from now on."""
        self._script = list(script)

    def close(self) -> None:
        """It is let go of."""
        self.closed = True


Reply = Response | ApiError | Sequence[Told]


@dataclass
class Server:
    """Answers lists and watches from a script, in order; questions about the revision are answered apart.

    `otherwise` is what a watch plays when none is next in the script; `slow` is how long an answer takes in seconds.
    """

    clock: FakeClock
    script: list[Reply]
    at: int | ApiError | None = None
    otherwise: Sequence[Told] | None = None
    slow: float = 0.0
    asked: list[dict[str, str]] = field(default_factory=list)
    streams: list[Played] = field(default_factory=list)
    questions: int = 0

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """A page."""
        assert path == "/api/v1/things"
        self.clock.time += self.slow
        if query == {"limit": "1"}:
            self.questions += 1
            if isinstance(self.at, ApiError):
                raise self.at
            assert self.at is not None
            return listed(self.at)
        reply = self._next(query)
        assert isinstance(reply, Response)
        return reply

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """A watch."""
        assert path == "/api/v1/things"
        assert query["allowWatchBookmarks"] == "true"
        if self.otherwise is not None and not (self.script and not isinstance(self.script[0], Response)):
            self.asked.append(dict(query))
            reply: Response | Sequence[Told] = self.otherwise
        else:
            reply = self._next(query)
        if isinstance(reply, Response):
            return reply
        self.streams.append(Played(self.clock, reply))
        return self.streams[-1]

    def _next(self, query: Mapping[str, str]) -> Response | Sequence[Told]:
        self.asked.append(dict(query))
        assert self.script, f"nobody expected {query}"
        reply = self.script.pop(0)
        if isinstance(reply, ApiError):
            raise reply
        return reply


def thing(name: str, revision: int) -> dict[str, Any]:
    """An object as the API server sends it."""
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(revision)}}


def row(name: str, revision: int) -> Thing:
    """The row it becomes."""
    return Thing(f"uid-{name}", "", name, revision)


def listed(revision: int, *items: dict[str, Any], more: str = "") -> Response:
    """A page of a list."""
    meta = {"resourceVersion": str(revision)} | ({"continue": more} if more else {})
    return Response(200, json.dumps({"kind": "List", "metadata": meta, "items": items}).encode())


def told(kind: str, item: dict[str, Any]) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(revision: int) -> bytes:
    """A bookmark, as the API server sends it: an object without a name."""
    return told(
        "BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(revision), "creationTimestamp": None}}
    )


def status(code: int, message: str = "it says why", **more: Any) -> dict[str, Any]:
    """A Status of the API server."""
    return {"kind": "Status", "status": "Failure", "message": message, "code": code} | more


def refusal(code: int, message: str = "it says why", retry_after: float | None = None, **more: Any) -> Response:
    """An answer that refuses."""
    return Response(code, msgspec.json.encode(status(code, message, **more)), retry_after)


@dataclass
class Following:
    """A reflector over a script."""

    server: Server
    clock: FakeClock
    reflector: Reflector[Namespace, Thing]
    run: Generator[WatchEvent[Thing] | None]

    def next(self) -> WatchEvent[Thing]:
        """The next event."""
        return next(event for event in self.run if event is not None)

    def until(self, seconds: float) -> list[WatchEvent[Thing]]:
        """What is told until so much time has passed."""
        end = self.clock.time + seconds
        events: list[WatchEvent[Thing]] = []
        while self.clock.time < end:
            event = next(self.run)
            if event is not None:
                events.append(event)
        return events


def follow(
    *script: Reply,
    at: int | None = None,
    pace: WatchTimeouts | None = None,
    reading: ResourceCodec[Namespace, Thing] = THINGS,
) -> Following:
    """Follow a server that plays this; `at` is the revision it says it is at."""
    clock = FakeClock()
    server = Server(clock, list(script), at)
    reflector = Reflector(reading, server, clock, lambda: 0.5, pace)
    return Following(server, clock, reflector, reflector.events())


def restarted(following: Following) -> dict[ApiErrorReason, int]:
    """Why lists and watches were begun again."""
    return dict(following.reflector.get_status().restarts)
