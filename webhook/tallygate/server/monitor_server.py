"""The server of the monitor port: plain HTTP, by waitress. It answers each probe, whatever else comes to the port.

A stranger may open connections that send nothing, or send and read slowly, or request metrics all the time. So

- there is always room for one connection more: at the limit the connection that has waited longest for the end of its
  first request is closed, then the one that was idle for longest, then the one that reads its response most slowly;
- a connection whose first request has not arrived after ten seconds is closed;
- probes have a thread of their own, which no request for metrics occupies;
- responses that wait for slow readers take a bounded amount of memory, and never a file;
- connections are polled: select(2) fails for descriptors above 1,023, which the HTTPS server may have.
"""

import logging
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from wsgiref.types import WSGIApplication

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from tallygate.server.listener import open_listener
from tallygate.server.settings.value_types import Address

PROBE_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""The paths with a thread of their own."""

_BACKLOG: Final = 1024
_MAX_CONNECTIONS: Final = 512
_FIRST_REQUEST_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 120.0
_SWEEP_SECONDS: Final = 0.25
_MAX_BODY_BYTES: Final = 1 << 16  # no request has a body
_MAX_HEADER_BYTES: Final = 1 << 14
_MAX_UNREAD_BYTES: Final = 16 << 20  # of all responses
_NEVER: Final = 1 << 30
_PROBE_THREADS = _OTHER_THREADS = 1
_ACCEPTS_AT_A_TIME: Final = 64
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)  # struct linger: on, 0 s


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorLimits:
    """The limits of the monitor port: its connections, times in seconds, bytes of responses that wait for readers."""

    connections: int = _MAX_CONNECTIONS
    first_request_timeout: float = _FIRST_REQUEST_SECONDS
    idle_timeout: float = _IDLE_SECONDS
    max_unread_bytes: int = _MAX_UNREAD_BYTES


class _Channel(HTTPChannel):
    """A connection, with the time of its last response."""

    answered_at: float | None = None

    def service(self) -> None:
        """Answer a request; waitress calls it in a thread."""
        super().service()
        self.answered_at = time.time()

    def cut(self) -> None:
        """End the connection; the thread of the server closes it when it sees the end, and never earlier.

        A descriptor that is closed at once may be that of the next connection, which would get the events of this one.
        The kernel drops what a slow reader has not read.
        """
        self.will_close = True
        connection: Any = self.socket
        with suppress(OSError):  # the client was faster
            if self.total_outbufs_len:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            connection.shutdown(socket.SHUT_RDWR)

    @property
    def idle_since(self) -> float:
        """The time of the last response, or else of the accept; in the same time as waitress' own."""
        return self.creation_time if self.answered_at is None else self.answered_at

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """The order in which connections are closed at the limit: the least first."""
        is_busy = bool(self.requests or self.total_outbufs_len)
        return is_busy, self.answered_at is not None, self.idle_since


class _Dispatcher(ThreadedTaskDispatcher):
    """The threads: one for probes, one for all other requests."""

    def __init__(self) -> None:
        super().__init__()
        self._probes, self._others = ThreadedTaskDispatcher(), ThreadedTaskDispatcher()
        self._probes.set_thread_count(_PROBE_THREADS)
        self._others.set_thread_count(_OTHER_THREADS)

    def add_task(self, channel: Any) -> None:
        """Queue the request of a connection."""
        path = getattr(channel.requests[0], "path", "")
        (self._probes if path in PROBE_PATHS else self._others).add_task(channel)


class _MonitorServer(TcpWSGIServer):
    """waitress' server with the limits of this module. Its own thread calls all methods but those of channels."""

    channel_class = _Channel

    def __init__(self, application: WSGIApplication, listener: socket.socket, limits: MonitorLimits) -> None:
        self._limits = limits
        adjustments = Adjustments(
            sockets=[listener],
            ident="tallygate",
            clear_untrusted_proxy_headers=True,
            backlog=_BACKLOG,
            asyncore_use_poll=True,
            asyncore_loop_timeout=1,
            cleanup_interval=_SWEEP_SECONDS,
            connection_limit=_NEVER,  # the limit here is another
            max_request_body_size=_MAX_BODY_BYTES,
            max_request_header_size=_MAX_HEADER_BYTES,
            outbuf_overflow=_NEVER,  # a file: the file system may be read-only
            log_socket_errors=False,
        )
        information = (listener.family, listener.type, listener.proto, listener.getsockname())
        super().__init__(
            application,
            _sock=listener,
            dispatcher=_Dispatcher(),
            adj=adjustments,
            sockinfo=information,
            bind_socket=False,
        )

    def handle_accept(self) -> None:
        """Accept the connections that wait, and close as many others as exceed the limit."""
        for _ in range(_ACCEPTS_AT_A_TIME):
            count = len(self._channels)
            super().handle_accept()
            if len(self._channels) == count:
                break
        channels = self._list_channels()
        excess = max(0, len(channels) - self._limits.connections)
        for channel in sorted(channels, key=lambda channel: channel.worth)[:excess]:
            channel.cut()

    def maintenance(self, now: float) -> None:
        """Close connections whose time is over, and the slowest readers if too much waits for readers."""
        channels = self._list_channels()
        for channel in channels:
            limit = self._limits.first_request_timeout if channel.answered_at is None else self._limits.idle_timeout
            if not channel.requests and channel.idle_since < now - limit:
                channel.cut()
        unread = sum(channel.total_outbufs_len for channel in channels)
        for channel in sorted(channels, key=lambda channel: channel.last_activity):
            if unread > self._limits.max_unread_bytes and channel.total_outbufs_len:
                unread -= channel.total_outbufs_len
                channel.cut()

    def _list_channels(self) -> list[_Channel]:
        """Return the connections that are not about to be closed."""
        return [channel for channel in self._channels.values() if not channel.will_close]

    @property
    def _channels(self) -> dict[int, _Channel]:
        channels: Any = self.active_channels
        return channels  # type: ignore[no-any-return]  # the stubs have another type


def start_monitor(application: WSGIApplication, address: Address, limits: MonitorLimits | None = None) -> int:
    """Serve the application in threads until the process ends, so that users can observe a drain; return the port.

    Raises:
        OSError: if the address is not available.
    """
    listener = open_listener(address, _BACKLOG)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of each request that waits
    server = _MonitorServer(application, listener, limits or MonitorLimits())
    threading.Thread(target=server.run, name="monitor", daemon=True).start()
    port: int = listener.getsockname()[1]
    return port
