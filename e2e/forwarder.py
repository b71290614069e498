"""Passes TCP on, as a Service does, or a network that loses what it is told to lose. It sees TLS, and so only bytes."""

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from e2e.link import Link

_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 1.0

Fault = Callable[[], str]
"""Says what happens to the next piece: `` (it passes), `lose` (the connection breaks), `late` (it comes later)."""


def nothing() -> str:
    """All passes."""
    return ""


def once(fault: str) -> Fault:
    """This, and then nothing any more."""
    left = [fault]
    return lambda: left.pop() if left else ""


def now_and_then(seed: int, share: float) -> Fault:
    """Of so large a share of the pieces some fault, by chance that is the same each time."""
    chance, lock = random.Random(seed), Lock()  # noqa: S311  # it only has to be the same each time

    def fault() -> str:
        with lock:
            return chance.choice(("lose", "late")) if chance.random() < share else ""

    return fault


class Forwarder:
    """Listens on `port` of loopback for as long as the `with` block runs, and passes on to ports of loopback.

    Each connection goes to the next of `servers` in turn that takes it. `requests` and `answers` say what happens to
    the pieces that clients send, and that servers send.
    """

    def __init__(self, *servers: int) -> None:
        self._servers = list(servers)
        self._lock = Lock()
        self._links: set[Link] = set()
        self._listener = socket.create_server((_LOOPBACK, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.requests: Fault = nothing
        self.answers: Fault = nothing

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self, quiet: float = 0.0) -> int:
        """Break the connections whose client has sent nothing for `quiet` seconds; how many those were.

        Who watches asks once and listens: that is how a watch is told from the rest.
        """
        links = self._quiet(quiet)
        for link in links:
            link.cut()
        return len(links)

    @contextmanager
    def stalled(self, quiet: float = 0.0) -> Iterator[int]:
        """Keep back what comes for such clients for as long as the block runs: their connections stand, and are silent.

        New connections are not held up. It gives how many those are.
        """
        links = self._quiet(quiet)
        for link in links:
            link.hold()
        try:
            yield len(links)
        finally:
            for link in links:
                link.let_go()

    def _quiet(self, seconds: float) -> list[Link]:
        now = time.monotonic()
        with self._lock:
            return [link for link in self._links if now - link.asked_at >= seconds]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = self._connected()
        if server is None:
            client.close()
            return
        link = Link(client, server)
        with self._lock:
            self._links.add(link)
        Thread(target=link.pass_answers, args=(self._answered,), daemon=True).start()
        link.pass_requests(self._requested)
        with self._lock:
            self._links.discard(link)

    def _requested(self) -> str:
        return self.requests()

    def _answered(self) -> str:
        return self.answers()

    def _connected(self) -> socket.socket | None:
        """A connection to the next server in turn that takes one; None when none does."""
        for port in self._turn():
            with suppress(OSError):
                server = socket.create_connection((_LOOPBACK, port), _CONNECT_SECONDS)
                server.settimeout(None)
                return server
        return None

    def _turn(self) -> list[int]:
        with self._lock:
            self._servers.append(self._servers.pop(0))
            return list(self._servers)
