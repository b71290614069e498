"""An API server with a history, compaction in etcd, a watch cache that may hang, and an unreliable network."""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.transport import Response, WatchStream
from tests.kube.scripted_server import FakeClock, error_response, status
from tests.state.informers.pods import pod

_PAGE = 3
_MAX_PODS = 12


class PodWrite(NamedTuple):
    """One write of a pod."""

    at: float
    revision: int
    kind: str
    item: dict[str, Any]


@dataclass
class Cluster:
    """The ground truth: the stored pods, every write of them, and the pods at each revision."""

    clock: FakeClock
    chance: Random
    revision: int = 100
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[PodWrite] = field(default_factory=list)
    states: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(100, {})])
    created: int = 0

    def read_state(self, revision: int) -> dict[str, str]:
        """Return the pods at a revision: the revision of each by UID."""
        return self.states[bisect_right(self.states, revision, key=lambda state: state[0]) - 1][1]

    def revision_at(self, time: float) -> int:
        """Return the revision of the last write of a pod at a time."""
        count = bisect_right(self.history, time, key=lambda written: written.at)
        return self.history[count - 1].revision if count else 0

    def advance(self, seconds: float) -> None:
        """Let time pass while other clients write."""
        self.clock.time += seconds
        for _ in range(int(seconds * 2) + (self.chance.random() < seconds * 2 % 1)):
            self.revision += 1
            if self.chance.random() < 0.2:
                self._write()

    def _write(self) -> None:
        uid = self.chance.choice([*self.pods, "new", "new"])
        if uid == "new" and len(self.pods) < _MAX_PODS:
            self.created += 1
            uid = f"u{self.created}"
            kind, self.pods[uid] = "ADDED", pod(uid, self.revision)
        elif uid == "new" or self.chance.random() < 0.5:
            kind, uid = "DELETED", uid if uid != "new" else next(iter(self.pods))
        else:
            kind, self.pods[uid] = "MODIFIED", pod(uid, self.revision, str(self.chance.randrange(9)))
        item = json.loads(json.dumps(self.pods[uid]))
        item["metadata"]["resourceVersion"] = str(self.revision)
        if kind == "DELETED":
            del self.pods[uid]
        self.history.append(PodWrite(self.clock.time, self.revision, kind, item))
        self.states.append(
            (self.revision, {uid: item["metadata"]["resourceVersion"] for uid, item in self.pods.items()})
        )


@dataclass
class SimulatedTransport:
    """A `Transport` to that cluster; `trouble` is the probability of a fault."""

    cluster: Cluster
    trouble: float
    compacted: int = 0
    cached: int = 0
    hangs_until: float = 0.0

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return a page of a list, or an error response."""
        assert path == "/api/v1/pods"
        self.cluster.advance(0.05)
        if (fault := self._fault()) is not None:
            return fault
        if "continue" not in query:
            revision, first = self.cluster.revision, 0
            self._progress()
        else:
            revision, first = (int(part) for part in query["continue"].split(":"))
        if revision < self.compacted:
            return error_response(
                410, "The provided continue parameter is too old", metadata={"continue": "inconsistent"}
            )
        state = self.cluster.read_state(revision)
        limit = min(_PAGE, int(query["limit"]))
        items = [self._item(uid, at) for uid, at in list(state.items())[first : first + limit]]
        meta = {"resourceVersion": str(revision)}
        if first + limit < len(state):
            meta["continue"] = f"{revision}:{first + limit}"
        body = json.dumps({"metadata": meta, "items": items}).encode()
        self.cluster.advance(0.3)  # a response takes a while, and meanwhile the cluster changes
        return Response(200, body)

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return the stream of a watch, or an error response."""
        assert path == "/api/v1/pods"
        self.cluster.advance(0.05)
        if (fault := self._fault()) is not None:
            return fault
        revision = int(query["resourceVersion"])
        is_expired = revision < self.compacted
        if is_expired and self._draw(0.5):
            return error_response(410, "too old resource version")
        return SimulatedWatchStream(self, revision, float(query["timeoutSeconds"]), is_expired=is_expired)

    def is_faulty(self, factor: float = 1.0) -> bool:
        """Return whether a fault happens now."""
        return self.cluster.chance.random() < self.trouble * factor

    def get_cache_revision(self) -> int:
        """Return the revision of the watch cache: that of pods, or one that a quorum read requested from etcd."""
        if self.cluster.clock.time >= self.hangs_until:
            self.cached = max(self.cached, self.cluster.revision_at(self.cluster.clock.time))
        return self.cached

    def _progress(self) -> None:
        if self.cluster.clock.time >= self.hangs_until:
            self.cached = max(self.cached, self.cluster.revision)

    def _fault(self) -> Response | None:
        """Compact etcd or hang the cache by chance, and return an error response if the request fails."""
        if self.is_faulty(0.3):
            self.compacted = self.cluster.revision - self.cluster.chance.randrange(30)
        if self.is_faulty(0.1):
            self.hangs_until = self.cluster.clock.time + self.cluster.chance.randrange(400)
        if not self.is_faulty():
            return None
        if self._draw(0.4):
            self.cluster.advance(10.0)
            raise ApiError(ApiErrorReason.TIMEOUT, "no answer")
        if self._draw(0.3):
            raise ApiError(ApiErrorReason.RESET, "reset")
        return self.cluster.chance.choice(
            [
                error_response(429, retry_after=3),
                error_response(503),
                error_response(403),
                Response(200, b"<html>"),
                error_response(401),
            ]
        )

    def _draw(self, probability: float) -> bool:
        return self.cluster.chance.random() < probability

    def _item(self, uid: str, revision: str) -> dict[str, Any]:
        (written,) = (w.item for w in self.cluster.history if w.revision == int(revision))
        assert written["metadata"]["uid"] == uid
        return written


class SimulatedWatchStream:
    """The stream of a watch: chunks end anywhere, and it may be silent, reset, or end in the middle of a line."""

    def __init__(self, server: SimulatedTransport, revision: int, seconds: float, *, is_expired: bool) -> None:
        self._server = server
        self._chance = server.cluster.chance
        self._start = self._sent = revision
        now = server.cluster.clock.time
        self._ends = now + seconds
        self._bookmark = min(now + 60, self._ends - 2)
        self._is_dead = server.is_faulty(2.0)
        self._ready = _line("ERROR", status(410, "too old", reason="Expired")) if is_expired else b""

    def read(self, timeout: float) -> bytes | None:
        """Return the next bytes, empty bytes at the end, or None after the timeout."""
        self._server.cluster.advance(timeout)
        if self._is_dead:
            return None
        self._collect()
        if self._server.is_faulty(0.02):
            self._is_dead = True
        if self._server.is_faulty(0.05):
            raise ApiError(ApiErrorReason.RESET, "reset")
        if self._server.is_faulty(0.05):
            return b""
        if self._ready:
            cut = self._chance.randrange(1, len(self._ready) + 1)
            chunk, self._ready = self._ready[:cut], self._ready[cut:]
            return chunk
        return b"" if self._server.cluster.clock.time >= self._ends else None

    def close(self) -> None:
        """Release nothing."""

    def _collect(self) -> None:
        upto, now = self._server.get_cache_revision(), self._server.cluster.clock.time
        if now >= self._ends or (self._sent < self._server.compacted and self._start == self._sent):
            return
        for written in self._server.cluster.history:
            if self._sent < written.revision <= upto:
                self._ready += _line(written.kind, written.item)
                self._sent = written.revision
        if now >= self._bookmark:
            self._bookmark = min(now + 60, self._ends - 2) if now < self._ends - 2 else self._ends + 1
            if upto > self._start:
                self._ready += _line("BOOKMARK", {"metadata": {"resourceVersion": str(upto)}})
                self._sent = max(self._sent, upto)


def _line(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"
