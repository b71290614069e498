"""The detection and shutdown of connections on which a request arrives too slowly, by the kernel's data about sockets.

granian limits the time of a header and the idle time of a connection, but not the time of a body: a client that sends
one byte a second would occupy a thread for ever. The worker does not expose the socket of a request. So, only while
some body has been arriving for too long, `SlowConnections` inspects the sockets themselves: a socket that received data
after it last sent data has a request in progress. If this lasts for too long without sent data, it shuts the socket
down, and the thread of the request finds the end of the body.

It does not detect a client that makes the server send data regularly, by HTTP/2 pings or TLS key updates.
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
"""Fields of `struct tcp_info` (linux/tcp.h, append-only): state, last_data_sent, last_data_recv (ms), bytes_acked."""

_ESTABLISHED = 1
_DESCRIPTOR_DIR = Path("/proc/self/fd")
_SWEEP_INTERVAL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _ConnectionInfo:
    """The kernel's data about a connection: inode, total bytes sent, seconds since data was sent and received."""

    inode: int
    bytes_sent: int
    seconds_since_sent: float
    seconds_since_received: float


class SlowConnections:
    """A sweeper that cuts the connections to a port on which a request has been arriving for over `request_timeout`.

    `find_oldest_read` returns the monotonic time at which the oldest current read began, or None without a current
    read. `idle_timeout` is the time after which the server itself closes an idle connection: a connection without sent
    data for longer has a request in progress, even if the last sent data (the end of a handshake) came after the
    beginning of the request. Times are in seconds.
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
        """Treat no connection as idle from now on, since a draining server closes idle connections at once."""
        self._is_draining = True
        self._idle_timeout = 0.0

    def sweep(self, now: float) -> int:
        """Inspect all connections once, at the monotonic time `now`; return the number of cut connections."""
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
    """Return the kernel's data about a socket, or None if it is not an established connection to the port.

    Raises:
        OSError: if the descriptor is not a TCP socket or is closed.
    """
    with _borrow_socket(descriptor) as connection:
        tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        state, sent_ms, received_ms, bytes_sent = _TCP_INFO.unpack(tcp_info)
        if state != _ESTABLISHED or connection.getsockname()[1] != port:
            return None
        return _ConnectionInfo(os.fstat(descriptor).st_ino, bytes_sent, sent_ms / 1000, received_ms / 1000)


def _shut_down(descriptor: int, inode: int) -> int:
    """Shut a socket down if the descriptor still refers to it; return 1 if so, else 0."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if os.fstat(connection.fileno()).st_ino == inode:
            connection.shutdown(socket.SHUT_RDWR)
            return 1
    return 0


@contextmanager
def _borrow_socket(descriptor: int) -> Iterator[socket.socket]:
    """Yield a socket object for a descriptor, and do not close the descriptor."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()
