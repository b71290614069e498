"""Connections on which a request takes too long to arrive, found by what the kernel knows of them, and cut.

granian bounds how long a header may take and how long a connection may stand idle, but not a body: a client that sends
one byte a second would hold a thread for ever. The worker tells nobody which socket a request came by. So, only while
some body has been arriving for too long, look at the sockets themselves: one that received data after the last that was
sent on it has a request under way. When that has been so for too long, with nothing sent meanwhile, the socket is shut
down, and its thread finds the body ended.

Not found is who makes the server send something now and then: by HTTP/2 pings, or TLS key updates.
"""

import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TCP_INFO = struct.Struct("=B43xI4xI64xQ")
"""Of `struct tcp_info` (linux/tcp.h, append-only): state, last_data_sent, last_data_recv (both ms), bytes_acked."""

_ESTABLISHED = 1
_DESCRIPTOR_DIR = Path("/proc/self/fd")
_SWEEP_INTERVAL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _ConnectionInfo:
    """A connection as the kernel saw it: which, how much was sent on it in all, and seconds since."""

    inode: int
    bytes_sent: int
    seconds_since_sent: float
    seconds_since_received: float


class SlowConnections:
    """Cuts the connections to a port on which a request has been arriving for more than `seconds`.

    `oldest` tells when the longest of the reads that go on began (monotonic), None when none does. `idle` is when the
    server itself closes an idle connection: one on which nothing was sent for longer has a request under way, even if
    what was sent last (the end of a handshake) came after the request's beginning.
    """

    def __init__(
        self, port: int, find_oldest_read: Callable[[], float | None], *, request_timeout: float, idle_timeout: float
    ) -> None:
        self._port = port
        self._find_oldest_read = find_oldest_read
        self._request_timeout = request_timeout
        self._idle_timeout = idle_timeout
        self._is_draining = False
        self._receiving_since: dict[tuple[int, int], float] = {}

    def drain(self) -> None:
        """From now on the server closes idle connections at once, so those that remain are not idle."""
        self._is_draining = True
        self._idle_timeout = 0.0

    def sweep(self, now: float) -> int:
        """Look once, at the monotonic time `now`; how many connections were cut."""
        receiving_since, self._receiving_since = self._receiving_since, {}
        oldest = self._find_oldest_read()
        read_seconds = now - oldest if oldest is not None else 0.0
        if read_seconds < _SWEEP_INTERVAL_SECONDS and not self._is_draining:
            return 0
        cut_count = 0
        for descriptor, info in _list_connections(self._port):
            key = (info.inode, info.bytes_sent)
            if info.seconds_since_received < info.seconds_since_sent:
                self._receiving_since[key] = receiving_since.get(key, now)
            is_slow = (
                now - self._receiving_since.get(key, now) > self._request_timeout
                or info.seconds_since_sent > self._idle_timeout + self._request_timeout
            )
            if is_slow and (self._is_draining or read_seconds > self._request_timeout):
                cut_count += _shut_down(descriptor, info.inode)
        return cut_count

    def start(self) -> None:
        """Sweep in a thread until the process ends."""

        def run() -> None:
            pause = threading.Event()
            while not pause.wait(_SWEEP_INTERVAL_SECONDS):
                self.sweep(time.monotonic())

        threading.Thread(target=run, name="slow-connections", daemon=True).start()


def _list_connections(port: int) -> Iterator[tuple[int, _ConnectionInfo]]:
    for entry in _DESCRIPTOR_DIR.iterdir():
        with suppress(OSError):
            descriptor = int(entry.name)
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode) and (info := _read_connection_info(descriptor, port)):
                yield descriptor, info


def _read_connection_info(descriptor: int, port: int) -> _ConnectionInfo | None:
    """What the kernel knows of a connection to the port.

    Raises:
        OSError: it is no TCP socket, or is gone by now.
    """
    with _borrow_socket(descriptor) as connection:
        tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        state, sent_ms, received_ms, bytes_sent = _TCP_INFO.unpack(tcp_info)
        if state != _ESTABLISHED or connection.getsockname()[1] != port:
            return None
        return _ConnectionInfo(os.fstat(descriptor).st_ino, bytes_sent, sent_ms / 1000, received_ms / 1000)


def _shut_down(descriptor: int, inode: int) -> int:
    """Shut a socket down, if the descriptor still is that socket; 1 if it was."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if os.fstat(connection.fileno()).st_ino == inode:
            connection.shutdown(socket.SHUT_RDWR)
            return 1
    return 0


@contextmanager
def _borrow_socket(descriptor: int) -> Iterator[socket.socket]:
    """A socket object over a descriptor that somebody else will close."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()
