"""Clients that create a pod and delete their oldest one, again and again, through several API servers."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPSConnection
from itertools import count
from threading import Event, Thread

from e2e.bench.client import Access
from e2e.stress.clients import NO_ANSWER, Attempt, open_connection, send_once
from e2e.stress.objects import create, delete, pod
from e2e.waiting import until

_KEPT = 4  # pods of a client
_PAUSE = 0.2  # seconds between two pods of a client
_ANSWERED_WITHIN = 120.0  # seconds


@dataclass(slots=True)
class _Client:
    """A client of one API server in one namespace; `begun` is when it sent its last pod (seconds, monotonic)."""

    server: int
    namespace: str
    attempts: list[Attempt] = field(default_factory=list)
    begun: float = 0.0
    _kept: deque[str] = field(default_factory=deque)

    def run(self, access: Access, numbers: Iterator[int], ends: Event) -> None:
        """Create a pod and delete one, until the end."""
        connection = open_connection(access)
        while not ends.is_set():
            name = f"pod-{next(numbers)}"
            self.begun = time.monotonic()
            attempt, _ = send_once(connection, create(self.namespace, pod(name, {"cpu": "1"})))
            self.attempts.append(attempt)
            if attempt.is_done or attempt.status == NO_ANSWER:
                self._kept.append(name)
            most = min(_KEPT, max(len(self._kept) - (attempt.status == HTTPStatus.FORBIDDEN), 0))
            while len(self._kept) > most and self._delete_oldest(connection):
                pass
            ends.wait(_PAUSE)
        connection.close()

    def _delete_oldest(self, connection: HTTPSConnection) -> bool:
        """Delete the oldest pod, and return whether it is deleted."""
        deletion, _ = send_once(connection, delete(self.namespace, self._kept[0]))
        if deletion.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            return False
        self._kept.popleft()
        return True


class PodChurn:
    """Clients of each of these API servers in each of these namespaces; each keeps some pods of one processor."""

    def __init__(self, accesses: Sequence[Access], namespaces: Sequence[str], clients: int) -> None:
        """Prepare this number of clients for each API server in each namespace."""
        self._ends = Event()
        numbers = count()
        self._clients = [
            _Client(server, namespace)
            for server in range(len(accesses))
            for namespace in namespaces
            for _ in range(clients)
        ]
        self._threads = [
            Thread(target=client.run, args=(accesses[client.server], numbers, self._ends), daemon=True)
            for client in self._clients
        ]

    @property
    def attempts(self) -> list[Attempt]:
        """The creations so far."""
        return [attempt for client in self._clients for attempt in client.attempts[:]]

    @contextmanager
    def run(self) -> Iterator[None]:
        """Run the clients for as long as the block runs."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in self._threads:
                thread.join()

    def list_attempts(self, server: int, namespace: str, since: float) -> list[Attempt]:
        """Return the creations through an API server, by its number, in a namespace, of those sent after a time."""
        return sorted(
            (
                attempt
                for client in self._clients
                if (client.server, client.namespace) == (server, namespace)
                for attempt in client.attempts[:]
                if attempt.begun > since
            ),
            key=lambda attempt: attempt.begun,
        )

    def until_answered(self) -> None:
        """Wait until every creation is answered that waits for its answer now.

        Raises:
            ClusterError: if it takes too long.
        """
        until(
            "the creations in flight are answered", partial(self._is_answered_since, time.monotonic()), _ANSWERED_WITHIN
        )

    def _is_answered_since(self, since: float) -> bool:
        return all(client.begun > since for client in self._clients)
