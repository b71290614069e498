"""A proxy in front of the API server that loses what it is told to lose. It sees TLS, and so only bytes."""

import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self

_PIECE = 256 * 1024
_LATE_SECONDS = 0.5
_RESET = struct.pack("ii", 1, 0)

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


class Meddler:
    """Listens on `port` of loopback for as long as the `with` block runs, and passes on to a port of loopback.

    `requests` and `answers` say what happens to the pieces that clients send, and that the server sends.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
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

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server))
                except OSError:
                    client.close()
                    continue
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                Thread(target=self._pass_on, args=(client, server, "requests"), daemon=True).start()
                Thread(target=self._pass_on, args=(server, client, "answers"), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, way: str) -> None:
        pause = 0.0
        with one, suppress(OSError):
            while (piece := one.recv(_PIECE)) and (fault := getattr(self, way)()) != "lose":
                if fault == "late":
                    pause = _LATE_SECONDS
                    time.sleep(pause)
                other.sendall(piece)
            time.sleep(pause)  # the API server stops work for a client that has gone
            other.shutdown(socket.SHUT_RDWR)
