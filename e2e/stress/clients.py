"""Clients that send one request after the other to the API server, and retry where that may help."""

import json
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from e2e.bench.client import Access
from e2e.waiting import until

NO_ANSWER = 0
"""In the place of a status: the connection broke, or no answer came in time."""

_ANSWER_SECONDS = 40.0  # the API server itself gives a request up after 34
_PAUSE = 0.1  # seconds before the same is asked again
_LONGEST_PAUSE = 1.0
_WITHIN = 300.0  # seconds for a load
_TAKEN = "AlreadyExists"


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `name` is the object's.

    With `edit` the object at the path is read first, and what `edit` makes of it is sent, with the revision read. It is
    sent in the name of `user`, if given.
    """

    name: str
    method: str
    path: str
    body: bytes | None = None
    type: str = "application/json"
    edit: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and its answer, with the times at which it was sent and answered (seconds, monotonic).

    `warnings` are those of an answer without an error.
    """

    name: str
    begun: float
    ended: float
    status: int
    reason: str = ""
    message: str = ""
    warnings: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the request was carried out; an earlier attempt may have done it."""
        return self.status in (HTTPStatus.OK, HTTPStatus.CREATED) or self.reason == _TAKEN

    @property
    def is_final(self) -> bool:
        """Whether an immediate retry would be of no use."""
        return self.is_done or self.status in (
            HTTPStatus.FORBIDDEN,
            HTTPStatus.NOT_FOUND,
            HTTPStatus.UNPROCESSABLE_ENTITY,
        )


class RequestLoad:
    """A number of clients, each on its own connection, that send requests until none is left.

    `attempts` are all that were answered so far.
    """

    def __init__(self, access: Access, clients: int, requests: Iterable[Request]) -> None:
        self.attempts: list[Attempt] = []
        self._access = access
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        for request in requests:
            self._requests.put(request)
        self._over = Event()
        self._threads = [Thread(target=self._client, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Self:
        self.begun = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until all requests are answered."""
        if error is not None:
            self._over.set()
        deadline = time.monotonic() + _WITHIN
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._over.set()

    def until_final(self, count: int) -> None:
        """Wait until `count` requests have had their final answer.

        Raises:
            ClusterError: if they have not in time.
        """
        until(f"{count} requests have their answer", lambda: self.finals() >= count, _WITHIN)

    def finals(self) -> int:
        """Return the number of requests that have had their final answer."""
        return sum(each.is_final for each in self.attempts)

    def _client(self) -> None:
        connection = open_connection(self._access)
        with suppress(queue.Empty):
            while not self._over.is_set():
                self._carry_out(connection, self._requests.get_nowait())
        connection.close()

    def _carry_out(self, connection: HTTPSConnection, request: Request) -> None:
        """Send a request until the answer is final."""
        while not self._over.is_set():
            attempt, pause = send_once(connection, request)
            self.attempts.append(attempt)
            if attempt.is_final:
                return
            self._over.wait(pause)


def send_requests(access: Access, clients: int, requests: Sequence[Request]) -> list[Attempt]:
    """Send all requests, and wait for the answers."""
    with RequestLoad(access, clients, requests) as load:
        pass
    return load.attempts


def open_connection(access: Access) -> HTTPSConnection:
    """Return a connection to an API server, for requests that it answers in time."""
    return HTTPSConnection(access.host, access.port, timeout=_ANSWER_SECONDS, context=access.trust)


def send_once(connection: HTTPSConnection, request: Request) -> tuple[Attempt, float]:
    """Make one attempt, and return it with the seconds to wait before the next one."""
    begun = time.monotonic()
    try:
        answer = _exchange(connection, request)
    except (OSError, HTTPException) as error:
        connection.close()
        return Attempt(request.name, begun, time.monotonic(), NO_ANSWER, message=str(error)), _PAUSE
    ended = time.monotonic()
    if answer.status < HTTPStatus.BAD_REQUEST:
        return Attempt(request.name, begun, ended, answer.status, warnings=answer.warnings), 0.0
    refusal = _decode(answer.body)
    wait = float((refusal.get("details") or {}).get("retryAfterSeconds", _PAUSE))
    attempt = Attempt(request.name, begun, ended, answer.status, refusal.get("reason", ""), refusal.get("message", ""))
    return attempt, min(wait, _LONGEST_PAUSE)


class _Answer(NamedTuple):
    status: int
    body: bytes
    warnings: str


def _exchange(connection: HTTPSConnection, request: Request) -> _Answer:
    """Send the request and return the answer; with `edit` that of the read, if it fails."""
    if request.edit is None:
        return _ask(connection, request, request.method, request.body)
    read = _ask(connection, request, "GET")
    if read.status != HTTPStatus.OK:
        return read
    return _ask(connection, request, request.method, json.dumps(request.edit(json.loads(read.body))).encode())


def _ask(connection: HTTPSConnection, request: Request, method: str, body: bytes | None = None) -> _Answer:
    headers = {"Content-Type": request.type, "Accept": "application/json"}
    user = {"Impersonate-User": request.user} if request.user else {}
    connection.request(method, request.path, body, headers | user)
    answer = connection.getresponse()
    return _Answer(answer.status, answer.read(), answer.getheader("Warning", ""))


def _decode(body: bytes) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace")}
    return decoded
