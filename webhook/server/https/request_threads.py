"""The threads that take requests: a limit on their number, and the end of connections that occupy one for too long.

Python runs one thread at a time. If several threads take requests, they spend more time passing the interpreter's lock
to each other than answering; a single thread answers three times as many requests a second. But a slow body or the
write of a ledger blocks a single thread. So a thread parks after its response if another active thread remains. A
thread that is about to wait announces it (`release_turn`). The gate wakes a parked thread when every active thread is
blocked: it waits, or has been at one request for over 10 ms. In addition, as many spare threads stay active as waited
at the same time in the last second or two: to park and wake a thread takes as long as to answer. granian itself adds
threads while none is idle, up to its limit.

granian limits the time of a header and the idle time of a connection, but not the time of a body: a client that sends
one byte a second would occupy a thread for ever. The worker does not expose the socket of a request. So, only while
some body has been arriving for too long, `SlowConnections` inspects the sockets themselves, by the kernel's data: a
socket that received data after it last sent data has a request in progress. If this lasts for too long without sent
data, it shuts the socket down, and the thread of the request finds the end of the body.

It does not detect a client that makes the server send data regularly, by HTTP/2 pings or TLS key updates.
"""

import math
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

_BLOCKED_SECONDS = 0.01
_IDLE_POLL_SECONDS = 0.05
_SPARE_PERIOD_SECONDS = 1.0


class _ThreadState(threading.local):
    """The thread gate of this thread's worker, while the thread handles a request."""

    gate: "ThreadGate | None" = None


_THREAD_STATE = _ThreadState()


@contextmanager
def release_turn() -> Iterator[None]:
    """Let another thread take requests while the block waits."""
    gate = _THREAD_STATE.gate
    if gate is None:
        yield
        return
    gate.release_turn()
    try:
        yield
    finally:
        gate.resume()


class ThreadGate:
    """The thread gate of one worker. Each thread enters it with a request and leaves it after the response."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: set[int] = set()
        self._blocked: set[int] = set()  # a subset of `_active`
        self._waiting: set[int] = set()  # a subset of `_blocked`: threads between `release_turn` and `resume`
        self._parked_count = 0
        self._max_waiting = 0  # at the same time, since `_spare_updated_at`
        self._spare_updated_at = -math.inf
        self._spare_count = 0  # the maximum of `_waiting` in the period before `_spare_updated_at`, or since
        self._waking_count = 0  # threads that were woken and are not active yet
        self._entered_at: dict[int, float] = {}
        self._wakeups = threading.Semaphore(0)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread that detects blocked threads."""
        threading.Thread(target=self._watch, name="turns", daemon=True).start()

    def stop(self) -> None:
        """Wake all parked threads, and park no thread any more."""
        with self._lock:
            self._stopped.set()
            self._wake(self._parked_count)

    def enter(self) -> None:
        """Mark the current thread as active, at the beginning of a request."""
        thread_id = threading.get_ident()
        _THREAD_STATE.gate = self
        self._entered_at[thread_id] = time.monotonic()
        if thread_id not in self._active:
            with self._lock:
                self._active.add(thread_id)

    def release_turn(self) -> None:
        """Mark the current thread as waiting, and wake a parked thread if all active threads are blocked."""
        with self._lock:
            self._waiting.add(threading.get_ident())
            self._blocked.add(threading.get_ident())
            self._max_waiting = max(self._max_waiting, len(self._waiting))
            self._spare_count = max(self._spare_count, self._max_waiting)
            self._wake_if_all_blocked()

    def resume(self) -> None:
        """Mark the current thread as not waiting any more."""
        with self._lock:
            self._waiting.discard(threading.get_ident())
            self._blocked.discard(threading.get_ident())

    def leave(self, *, may_park: bool) -> None:
        """End the request of the current thread; park the thread if it may and enough other threads are active."""
        thread_id = threading.get_ident()
        _THREAD_STATE.gate = None
        del self._entered_at[thread_id]
        if may_park and len(self._active) > 1 + self._spare_count:
            self._park(thread_id)

    def check_blocked(self, now: float) -> None:
        """Wake a parked thread if all active threads are blocked at the monotonic time `now`.

        Once a second, reduce the number of spare threads to the maximum number of threads that waited in that second.
        """
        slow_threads = {
            thread for thread, entered_at in list(self._entered_at.items()) if now - entered_at > _BLOCKED_SECONDS
        }
        with self._lock:
            if now >= self._spare_updated_at + _SPARE_PERIOD_SECONDS:
                self._spare_updated_at, self._spare_count, self._max_waiting = (
                    now,
                    self._max_waiting,
                    len(self._waiting),
                )
            self._blocked = (slow_threads & self._entered_at.keys() & self._active) | self._waiting
            self._wake_if_all_blocked()

    def _wake_if_all_blocked(self) -> None:
        if self._parked_count and len(self._blocked) >= len(self._active) + self._waking_count:
            self._wake(1)

    def _wake(self, count: int) -> None:
        self._parked_count -= count
        self._waking_count += count
        if count:
            self._wakeups.release(count)

    def _park(self, thread_id: int) -> None:
        with self._lock:
            self._blocked.discard(thread_id)
            if self._stopped.is_set() or len(self._active) - len(self._blocked) <= 1 + self._spare_count:
                return
            self._active.discard(thread_id)
            self._parked_count += 1
        self._wakeups.acquire()
        with self._lock:
            self._waking_count -= 1
            self._active.add(thread_id)

    def _watch(self) -> None:
        while not self._stopped.wait(_BLOCKED_SECONDS if self._entered_at else _IDLE_POLL_SECONDS):
            self.check_blocked(time.monotonic())


_TCP_INFO = struct.Struct("=B43xI4xI64xQ")
"""Fields of `struct tcp_info` (linux/tcp.h, append-only): state, last_data_sent, last_data_recv (ms), bytes_acked."""

_ESTABLISHED = 1
_DESCRIPTOR_DIR = Path("/proc/self/fd")
SWEEP_INTERVAL_SECONDS = 0.25
"""The time between two sweeps of `SlowConnections`."""


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
        if read_seconds < SWEEP_INTERVAL_SECONDS and not self._is_draining:
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
