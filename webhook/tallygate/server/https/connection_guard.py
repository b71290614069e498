"""The guard of the connections to the HTTPS port: it closes those that occupy a place which a review needs.

granian knows one limit of connections, at which it accepts no more, and one time, which is that of a header and of an
idle connection alike. It limits no time of a body. So a stranger could occupy every place by connections that send
nothing, and every thread by bodies that never end. granian exposes no sockets, so the guard inspects them by the
kernel's data, and ends one by `shutdown`; granian then sees the end.

- A connection is *answered* once the server has sent more than a handshake on it. A handshake is measured once for each
  certificate (`measure_handshake`). Every response but that of a review closes its connection (`https_server`), so an
  answered connection is one with an answered review. Only granian's idle time applies to it.
- A connection that is not answered has `first_request_timeout`, and so has each later header. `request_timeout` is
  added while the address has a request in the application that may be of this connection.
- At the limit of all connections, or of those of one address, the guard closes the excess: first connections that are
  not answered, of these the ones that send nothing, the oldest first; then answered ones that are idle. The newest that
  are not answered come last, since one of them may be about to send. No answered connection whose request is served is
  closed.
- A request has been arriving for as long as its socket has received data after it last sent data. After
  `request_timeout` the guard closes the connection, and the thread of the request finds the end of the body. If too
  many threads wait for bodies at a time, it closes the connections with the oldest ones.
"""

import os
import socket
import ssl
import stat
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

_TCP_INFO = struct.Struct("=B43xI4xI64xQ")
"""Fields of `struct tcp_info` (linux/tcp.h, append-only): state, last_data_sent, last_data_recv (ms), bytes_acked."""

_ESTABLISHED: Final = 1
_DESCRIPTOR_DIR: Final = "/proc/self/fd"
_MIN_ANSWER_BYTES: Final = 200  # an answer has 270 and more; handshakes differ by less, with their groups and ciphers
_SHARE_OF_NEW: Final = 16  # of the limit of connections: those that are closed last
_SETTLED_SECONDS: Final = 1.0  # no honest client waits longer between connecting, shaking hands and sending
_MEASURE_SECONDS: Final = 5.0
_MAX_TRIED_DESCRIPTORS: Final = 1 << 16
SWEEP_SECONDS: Final = 0.25
"""The time between two sweeps of `ConnectionGuard` while there is room for connections."""
CROWDED_SWEEP_SECONDS: Final = 0.1
"""The time between two sweeps while there is little room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of connections: of all, of one address, of threads that wait for bodies; and times in seconds."""

    connections: int
    connections_per_address: int
    waiting_threads: int
    first_request_timeout: float
    request_timeout: float
    idle_timeout: float


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """The requests in the application now.

    Args:
        reads: the monotonic times at which bodies began to arrive.
        addresses: the addresses of clients, with the monotonic time of the oldest request of each.
    """

    reads: Sequence[float] = ()
    addresses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """The kernel's data about a connection: total bytes sent, seconds since data was sent and received."""

    bytes_sent: int
    seconds_since_sent: float
    seconds_since_received: float

    @property
    def is_receiving(self) -> bool:
        """Whether a request, or a part of it, has arrived since the server last sent data."""
        return self.seconds_since_received < self.seconds_since_sent


@dataclass(slots=True)
class _Connection:
    """An accepted connection, its state in this sweep, and since when its request has been arriving."""

    descriptor: int
    inode: int
    address: str
    accepted_at: float
    info: ConnectionInfo
    is_answered: bool = False
    is_cut: bool = False
    receiving_since: float | None = None

    @property
    def rank(self) -> tuple[bool, float, int]:
        """The order in which connections are closed: the least first."""
        since = -self.info.seconds_since_sent if self.is_answered else self.accepted_at
        return self.info.is_receiving, since, self.inode

    @property
    def age_rank(self) -> tuple[float, int]:
        """The order in which connections were accepted; inodes order those of one tick of the kernel."""
        return self.accepted_at, self.inode

    def update(self, info: ConnectionInfo, now: float, handshake_bytes: int) -> None:
        """Take over the kernel's data of a sweep."""
        if not info.is_receiving:
            self.receiving_since = None
        elif self.receiving_since is None or info.bytes_sent != self.info.bytes_sent:
            self.receiving_since = now
        self.is_answered |= info.bytes_sent >= handshake_bytes + _MIN_ANSWER_BYTES
        self.info = info


class ConnectionGuard:
    """The guard of the connections to a port. One thread calls it, at intervals of `get_interval`.

    Args:
        port: the port of the server.
        limits: the limits of connections.
        get_load: returns the requests in the application.
        get_handshake_bytes: returns the bytes that the server sends in a handshake.
        count_closed: called with the reason and the number of connections that were closed.
    """

    def __init__(
        self,
        port: int,
        limits: ConnectionLimits,
        get_load: Callable[[], RequestLoad],
        get_handshake_bytes: Callable[[], int] = lambda: 0,
        count_closed: Callable[[str, int], object] = lambda _reason, _count: None,
    ) -> None:
        self._port = port
        self._limits = limits
        self._get_load = get_load
        self._get_handshake_bytes = get_handshake_bytes
        self._count_closed = count_closed
        self._is_draining = False
        self._connections: dict[int, _Connection] = {}
        self._others: set[int] = set()  # inodes of connections to other ports

    def drain(self) -> None:
        """Treat no connection as idle from now on, since a draining server closes idle connections at once."""
        self._is_draining = True

    def get_interval(self) -> float:
        """Return the seconds until the next sweep."""
        is_crowded = 4 * len(self._connections) > 3 * self._limits.connections
        return CROWDED_SWEEP_SECONDS if is_crowded else SWEEP_SECONDS

    def sweep(self, now: float) -> int:
        """Inspect all connections once, at the monotonic time `now`; return the number of closed connections."""
        self._update(now)
        load = self._get_load()
        open_connections = list(self._connections.values())
        closed = [
            self._cut("slow", self._find_slow(open_connections, load, now)),
            self._cut("late", self._find_late(open_connections, load, now)),
            self._cut("threads", self._find_crowding(open_connections, load, now)),
            self._cut("address", self._find_excess_of_addresses(open_connections, load, now)),
            self._cut("limit", self._find_excess(open_connections, load, now)),
        ]
        return sum(closed)

    def _update(self, now: float) -> None:
        """Take over the kernel's data of all connections."""
        known, self._connections = self._connections, {}
        others, self._others = self._others, set()
        handshake_bytes = self._get_handshake_bytes()
        for descriptor, inode in _list_sockets():
            if inode in others:
                self._others.add(inode)
                continue
            try:
                info = _read_info(descriptor)
                connection = known.get(descriptor)
                if info is not None and (connection is None or connection.inode != inode):
                    connection = self._create_connection(descriptor, inode, now, info)
            except OSError:
                continue
            if info is not None and connection is not None:
                connection.update(info, now, handshake_bytes)
                self._connections[descriptor] = connection

    def _create_connection(self, descriptor: int, inode: int, now: float, info: ConnectionInfo) -> _Connection | None:
        """Return a new connection, or None if it is one to another port."""
        with _borrow_socket(descriptor) as borrowed:
            if borrowed.getsockname()[1] != self._port:
                self._others.add(inode)
                return None
            # One sweep finds several: the kernel knows when it accepted a silent one, or last sent its handshake.
            return _Connection(descriptor, inode, borrowed.getpeername()[0], now - info.seconds_since_sent, info)

    def _is_served(self, connection: _Connection, load: RequestLoad, now: float) -> bool:
        """Return whether a request of the connection may be in the application.

        The first request may arrive together with the end of the handshake, before the server sends its last part; then
        the kernel's times do not show it. So it may be any request of the address that is served for a second.
        """
        began_at = load.addresses.get(connection.address)
        if began_at is None:
            return False
        if not connection.is_answered and now - began_at > _SETTLED_SECONDS:
            since: float | None = connection.accepted_at
        else:
            since = connection.receiving_since
        limit = self._limits.first_request_timeout + self._limits.request_timeout
        return since is not None and now - since <= limit

    def _find_slow(self, connections: Iterable[_Connection], load: RequestLoad, now: float) -> list[_Connection]:
        """Return the connections whose request has been arriving for too long.

        Without a read for as long, data that arrived after the last response is the beginning of a header, and granian
        limits its time; or the request is being decided.
        """
        oldest = min(load.reads, default=now)
        if now - oldest <= self._limits.request_timeout and not self._is_draining:
            return []
        idle_timeout = 0.0 if self._is_draining else self._limits.idle_timeout
        return [
            connection
            for connection in connections
            if (
                connection.receiving_since is not None
                and now - connection.receiving_since > self._limits.request_timeout
            )
            or connection.info.seconds_since_sent > idle_timeout + self._limits.request_timeout
        ]

    def _find_late(self, connections: Iterable[_Connection], load: RequestLoad, now: float) -> list[_Connection]:
        """Return the connections on which a request, the first one or a later one, has not arrived in time."""
        late = []
        for connection in connections:
            since = connection.receiving_since if connection.is_answered else connection.accepted_at
            limit = self._limits.first_request_timeout
            if since is not None and now - since > limit and not self._is_served(connection, load, now):
                late.append(connection)
        return late

    def _find_crowding(self, connections: Iterable[_Connection], load: RequestLoad, now: float) -> list[_Connection]:
        """Return the connections that may have the oldest bodies, if too many threads wait for bodies.

        More requests than there are threads may wait in granian, so the excess is counted in connections.
        """
        if sum(now - began_at > _SETTLED_SECONDS for began_at in load.reads) <= self._limits.waiting_threads:
            return []
        crowding = [
            connection
            for connection in connections
            if now - connection.accepted_at > _SETTLED_SECONDS and self._is_served(connection, load, now)
        ]
        ordered = sorted(crowding, key=lambda connection: (connection.is_answered, connection.age_rank))
        return ordered[: max(0, len(ordered) - self._limits.waiting_threads)]

    def _find_excess_of_addresses(
        self, connections: Iterable[_Connection], load: RequestLoad, now: float
    ) -> list[_Connection]:
        """Return the connections of each address that exceed its limit, of those that had time to send."""
        by_address: defaultdict[str, list[_Connection]] = defaultdict(list)
        for connection in connections:
            if not connection.is_cut:
                by_address[connection.address].append(connection)
        excess: list[_Connection] = []
        for each_address in by_address.values():
            count = len(each_address) - self._limits.connections_per_address
            if count > 0:
                closable = self._sort_closable(each_address, load, now)[:count]
                excess += [connection for connection in closable if now - connection.accepted_at > _SETTLED_SECONDS]
        return excess

    def _find_excess(self, connections: Iterable[_Connection], load: RequestLoad, now: float) -> list[_Connection]:
        """Return the connections that exceed the limit of all."""
        rest = [connection for connection in connections if not connection.is_cut]
        return self._sort_closable(rest, load, now)[: max(0, len(rest) - self._limits.connections)]

    def _sort_closable(self, connections: Iterable[_Connection], load: RequestLoad, now: float) -> list[_Connection]:
        """Return the connections that may be closed for others, in the order in which they are."""
        unanswered = sorted(
            (connection for connection in connections if not connection.is_answered), key=lambda each: each.rank
        )
        idle = [
            connection
            for connection in connections
            if connection.is_answered and not self._is_served(connection, load, now)
        ]
        new_count = max(1, self._limits.connections // _SHARE_OF_NEW)
        newest = sorted(unanswered, key=lambda connection: connection.age_rank)[-new_count:]
        new_descriptors = {connection.descriptor for connection in newest}
        old = [connection for connection in unanswered if connection.descriptor not in new_descriptors]
        return [*old, *sorted(idle, key=lambda each: each.rank), *newest]

    def _cut(self, reason: str, connections: Iterable[_Connection]) -> int:
        count = 0
        for connection in connections:
            if not connection.is_cut:
                connection.is_cut = True
                count += _shut_down(connection.descriptor, connection.inode)
        if count:
            self._count_closed(reason, count)
        return count


def measure_handshake(address: tuple[str, int]) -> int:
    """Return the bytes that a server at the address sends in a handshake with a client without a certificate.

    A session ticket is included, and the alert at the end; 0 if the server does not answer within five seconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # this process is the server
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent)
    count = 0
    with suppress(OSError), socket.create_connection(address, _MEASURE_SECONDS) as connection:
        for step in (client.do_handshake, client.unwrap):
            is_done = False
            while not is_done:
                with suppress(ssl.SSLWantReadError):
                    step()
                    is_done = True
                connection.sendall(sent.read())
                if not is_done:
                    content = connection.recv(1 << 16)
                    if not content:
                        return count
                    received.write(content)
                    count += len(content)
    return count


def _list_sockets() -> Iterator[tuple[int, int]]:
    for descriptor in _list_descriptors():
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            yield descriptor, status.st_ino


def _list_descriptors() -> Iterable[int]:
    """Return the open descriptors; while none is free to read them, the numbers that they may have."""
    try:
        return [int(name) for name in os.listdir(_DESCRIPTOR_DIR)]  # noqa: PTH208 - of thousands, many times a second
    except OSError:
        return range(_MAX_TRIED_DESCRIPTORS)


def _read_info(descriptor: int) -> ConnectionInfo | None:
    """Return the kernel's data about a connection, or None if it is not established.

    Raises:
        OSError: if the descriptor is not a TCP socket or is closed.
    """
    borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, descriptor)
    try:
        tcp_info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    finally:
        borrowed.detach()
    state, sent_ms, received_ms, bytes_sent = _TCP_INFO.unpack(tcp_info)
    return ConnectionInfo(bytes_sent, sent_ms / 1000, received_ms / 1000) if state == _ESTABLISHED else None


def _shut_down(descriptor: int, inode: int) -> int:
    """Shut a socket down if the descriptor still refers to it; return 1 if so, else 0."""
    with suppress(OSError), _copy_socket(descriptor) as connection:
        if os.fstat(connection.fileno()).st_ino == inode:
            connection.shutdown(socket.SHUT_RDWR)
            return 1
    return 0


def _copy_socket(descriptor: int) -> AbstractContextManager[socket.socket]:
    """Return a socket of its own descriptor, which no other thread can close; while none is free, one that borrows."""
    try:
        return socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return _borrow_socket(descriptor)


@contextmanager
def _borrow_socket(descriptor: int) -> Iterator[socket.socket]:
    """Yield a socket object for a descriptor, and do not close the descriptor."""
    connection = socket.socket(
        socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor
    )  # has room for both kinds of addresses
    try:
        yield connection
    finally:
        connection.detach()
