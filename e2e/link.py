"""One connection that is passed on: a client's, and the one made for it to a server."""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event

_PIECE = 256 * 1024
_LATE_SECONDS = 0.5
_RESET = struct.pack("ii", 1, 0)


class Link:
    """Two sockets, which it closes; `asked_at` is when the client last sent something (seconds, monotonic)."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._passes = Event()
        self._passes.set()
        self.asked_at = time.monotonic()
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pass_requests(self, fault: Callable[[], str]) -> None:
        """Pass on what the client sends, until either side is gone; `fault` says what becomes of each piece."""
        self._pass_on(self._client, self._server, fault, self._asked)

    def pass_answers(self, fault: Callable[[], str]) -> None:
        """Pass on what the server sends, until either side is gone."""
        self._pass_on(self._server, self._client, fault, self._passes.wait)

    def hold(self) -> None:
        """Keep back what the server sends."""
        self._passes.clear()

    def let_go(self) -> None:
        """Pass on what was kept back, and what comes."""
        self._passes.set()

    def cut(self) -> None:
        """Break both connections; what was kept back is lost."""
        for each in (self._client, self._server):
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
        self.let_go()

    def _asked(self) -> None:
        self.asked_at = time.monotonic()

    def _pass_on(
        self, one: socket.socket, other: socket.socket, fault: Callable[[], str], before: Callable[[], object]
    ) -> None:
        pause = 0.0
        with one, suppress(OSError):
            while piece := one.recv(_PIECE):
                before()
                if (what := fault()) == "lose":
                    self.cut()
                    return
                if what == "late":
                    pause = _LATE_SECONDS
                    time.sleep(pause)
                other.sendall(piece)
            time.sleep(pause)  # the API server stops work for a client that has gone
            other.shutdown(socket.SHUT_RDWR)
