"""A TCP proxy that passes connections on, as a Service does, or loses and delays pieces; TLS is opaque to it."""

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 1.0
_PIECE = 256 * 1024
_LATE_SECONDS, _LINGER_SECONDS = 0.5, 5.0
_RESET = struct.pack("ii", 1, 0)

Fault = Callable[[], str]
"""Returns what happens to the next piece: `` (it passes), `lose` (the connection breaks), `late` (it comes later)."""


def pass_all() -> str:
    """Return no fault."""
    return ""


def fail_once(fault: str) -> Fault:
    """Return a source of this fault for the next piece, and of none for the pieces after it."""
    left = [fault]
    return lambda: left.pop() if left else ""


def fail_randomly(seed: int, share: float) -> Fault:
    """Return a source of some fault for this share of the pieces, by chance that is the same each time."""
    chance, lock = random.Random(seed), Lock()  # noqa: S311  # it only has to be the same each time

    def fault() -> str:
        with lock:
            return chance.choice(("lose", "late")) if chance.random() < share else ""

    return fault


class _ProxiedConnection:
    """A client's socket and the server's, which it closes; `last_request_at` is when the client last sent something.

    That time is in seconds of the monotonic clock.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._passes = Event()
        self._passes.set()
        self.last_request_at = time.monotonic()
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pass_requests(self, fault: Fault) -> None:
        """Pass on what the client sends, until either side ends; `fault` decides about each piece."""
        self._pass_on(self._client, self._server, fault, self._note_request)

    def pass_answers(self, fault: Fault) -> None:
        """Pass on what the server sends, until either side ends."""
        self._pass_on(self._server, self._client, fault, self._passes.wait)

    def pause(self) -> None:
        """Keep back what the server sends."""
        self._passes.clear()

    def resume(self) -> None:
        """Pass on what was kept back, and what comes."""
        self._passes.set()

    def cut(self) -> None:
        """Break both connections; what was kept back is lost."""
        for each in (self._client, self._server):
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
        self.resume()

    def _note_request(self) -> None:
        self.last_request_at = time.monotonic()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, fault: Fault, before: Callable[[], object]
    ) -> None:
        pause = 0.0
        with source, suppress(OSError):
            while piece := source.recv(_PIECE):
                before()
                if (kind := fault()) == "lose":
                    self.cut()
                    return
                if kind == "late":
                    pause = _LINGER_SECONDS
                    time.sleep(_LATE_SECONDS)
                target.sendall(piece)
            time.sleep(pause)  # the API server stops work for a client that has closed its connection
            target.shutdown(socket.SHUT_RDWR)


class TcpProxy:
    """A proxy that listens on `port` of loopback for as long as the `with` block runs.

    Each connection goes to the next of `servers` (ports of loopback) in turn that takes it. `requests` and `answers`
    are the faults of the pieces that clients send, and that servers send.
    """

    def __init__(self, *servers: int) -> None:
        self._servers = list(servers)
        self._lock = Lock()
        self._connections: set[_ProxiedConnection] = set()
        self._listener = socket.create_server((_LOOPBACK, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.requests: Fault = pass_all
        self.answers: Fault = pass_all

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
        """Break the connections whose client has sent nothing for `quiet` seconds, and return their number.

        A watch asks once and listens: that tells its connection from the others.
        """
        connections = self._find_quiet(quiet)
        for connection in connections:
            connection.cut()
        return len(connections)

    @contextmanager
    def stall(self, quiet: float = 0.0) -> Iterator[int]:
        """Keep back what comes for such clients for as long as the block runs, and yield their number.

        Their connections stand, and are silent. New connections are not delayed.
        """
        connections = self._find_quiet(quiet)
        for connection in connections:
            connection.pause()
        try:
            yield len(connections)
        finally:
            for connection in connections:
                connection.resume()

    def _find_quiet(self, seconds: float) -> list[_ProxiedConnection]:
        now = time.monotonic()
        with self._lock:
            return [connection for connection in self._connections if now - connection.last_request_at >= seconds]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = self._connect()
        if server is None:
            client.close()
            return
        connection = _ProxiedConnection(client, server)
        with self._lock:
            self._connections.add(connection)
        Thread(target=connection.pass_answers, args=(self._find_answer_fault,), daemon=True).start()
        connection.pass_requests(self._find_request_fault)
        with self._lock:
            self._connections.discard(connection)

    def _find_request_fault(self) -> str:
        return self.requests()

    def _find_answer_fault(self) -> str:
        return self.answers()

    def _connect(self) -> socket.socket | None:
        """Return a connection to the next server in turn that takes one; None if none does."""
        for port in self._order_servers():
            with suppress(OSError):
                server = socket.create_connection((_LOOPBACK, port), _CONNECT_SECONDS)
                server.settimeout(None)
                return server
        return None

    def _order_servers(self) -> list[int]:
        with self._lock:
            self._servers.append(self._servers.pop(0))
            return list(self._servers)
