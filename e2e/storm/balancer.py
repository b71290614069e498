"""One address in front of several replicas, as a Service is: each connection goes to the next one that takes it."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self

_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024
_CONNECT_SECONDS = 1.0


class Balancer:
    """Listens on `port` of loopback for as long as the `with` block runs, and passes on to these ports of loopback."""

    def __init__(self, servers: Sequence[int]) -> None:
        self._servers = list(servers)
        self._lock = Lock()
        self._listener = socket.create_server((_LOOPBACK, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

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
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Thread(target=_pass_on, args=(server, client), daemon=True).start()
        _pass_on(client, server)

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


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """All that comes, until either side is gone: then both are."""
    with suppress(OSError):
        while piece := one.recv(_PIECE):
            other.sendall(piece)
    for each in (one, other):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    one.close()
