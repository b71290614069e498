"""Upstreams over HTTPS: the gate in the relay's own pod, and the replica that the Service's name leads to."""

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tallygate.webhook.server.interfaces import SERVING
from tallygate.webhook.server.relay.exchange import ExchangeResult, exchange
from tallygate.webhook.server.relay.failover import (
    RELAY_HEADER,
    PeerService,
    RelayRequest,
    RelayResponse,
    SlowUpstreamError,
    UnreachableError,
    UpstreamTimeout,
)
from tallygate.webhook.server.settings.value_types import Address

_CONNECT_SECONDS: Final = 1.0  # for the name, all its addresses and TLS; within a cluster it takes a millisecond
_RESOLVERS: Final = ThreadPoolExecutor(8, "resolve")

UpstreamAddress = Address | PeerService


class _Check(msgspec.Struct):
    ready: bool


class _Readiness(msgspec.Struct):
    checks: dict[str, _Check]


_READINESS_DECODER: Final = msgspec.json.Decoder(_Readiness)


class UpstreamConnection:
    """A TLS connection to a gate. It is closed after anything but an answer, since the next bytes could be any.

    Every `deadline` is in seconds of `time.monotonic`.

    Raises:
        OSError: the connection was not made before the deadline, or within a second.
    """

    def __init__(self, address: UpstreamAddress, context: ssl.SSLContext, deadline: float) -> None:
        connect_deadline = min(deadline, time.monotonic() + _CONNECT_SECONDS)
        tcp_socket = _connect(address, connect_deadline)
        try:
            tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tcp_socket.settimeout(_remaining_seconds(connect_deadline))  # for the TLS handshake
            self._socket = context.wrap_socket(tcp_socket, server_hostname=address.host)
        except BaseException:
            tcp_socket.close()
            raise
        self._host_header = f"Host: {address}\r\n"
        self.is_open = True

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._socket.close()

    def check_ready(self, deadline: float) -> None:
        """Return if the gate is ready, or if it only drains.

        Raises:
            OSError: if the connection fails.
            ValueError: if the gate is not ready, or its answer is no readiness.
        """
        response = self._exchange(f"GET /readyz HTTP/1.1\r\n{self._host_header}\r\n".encode(), deadline)
        checks = _READINESS_DECODER.decode(response.body).checks
        if failed := [name for name, check in checks.items() if not check.ready and name != SERVING]:
            self.close()
            raise ValueError(f"it is not ready: {', '.join(failed)}")

    def send(self, relay_request: RelayRequest, deadline: float, headers: str = "") -> RelayResponse:
        """Send a review and return the response; a 503 (too many requests, no upstream) counts as no response.

        Raises:
            OSError: if the connection fails.
            ValueError: if the response is not HTTP, or is a 503.
        """
        announced_seconds = compute_announced_seconds(_remaining_seconds(deadline))
        target = f"{quote(relay_request.path)}?timeout={max(1, int(announced_seconds * 1000))}ms"
        content_headers = f"Content-Type: application/json\r\nContent-Length: {len(relay_request.body)}\r\n"
        request = (
            f"POST {target} HTTP/1.1\r\n{self._host_header}{content_headers}{headers}\r\n".encode() + relay_request.body
        )
        response = self._exchange(request, deadline)
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.close()
            raise ValueError(f"it answered {response.status}")
        return response

    def _exchange(self, request: bytes, deadline: float) -> RelayResponse:
        try:
            exchanged: ExchangeResult = exchange(self._socket, request, deadline)
        except BaseException:
            self.close()
            raise
        if not exchanged.stays_open:
            self.close()
        return RelayResponse(*exchanged.response)


def _connect(address: UpstreamAddress, deadline: float) -> socket.socket:
    """Return a TCP connection to the first address of a host that accepts one; each has an equal share of the time.

    Raises:
        OSError: if no address accepts a connection before the deadline; it is the error of the last address.
    """
    targets = _resolve(address, deadline)
    for attempts_left, (family, kind, protocol, _, target) in zip(range(len(targets), 0, -1), targets, strict=True):
        tcp_socket = socket.socket(family, kind, protocol)
        try:
            tcp_socket.settimeout(_remaining_seconds(deadline, attempts_left))
            tcp_socket.connect(target)
        except OSError:
            tcp_socket.close()
            if attempts_left == 1:
                raise
        else:
            return tcp_socket
    raise OSError("the name has no address")


def _resolve(address: UpstreamAddress, deadline: float) -> Sequence[tuple[Any, ...]]:
    """Return the results of `getaddrinfo`; a name is looked up in another thread, since the resolver has no timeout.

    Raises:
        OSError: if the name is unknown, or is not resolved before the deadline.
    """
    if isinstance(address, Address):
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    lookup = _RESOLVERS.submit(socket.getaddrinfo, address.host, address.port, type=socket.SOCK_STREAM)
    try:
        return lookup.result(_remaining_seconds(deadline))
    finally:
        lookup.cancel()  # if no thread has begun it


def _remaining_seconds(deadline: float, shares: int = 1) -> float:
    """Return the seconds until the deadline divided by `shares`, at least 1 ms: a timeout of 0 would not block."""
    return max((deadline - time.monotonic()) / shares, 0.001)


def compute_announced_seconds(seconds: float) -> float:
    """Return the timeout in a request: less than the relay waits, so that a gate that is too busy can still answer 429.

    Otherwise the relay would take the gate for hanging, and ask its peers in its place.
    """
    return max(seconds - 0.1, seconds / 2)


@contextmanager
def raise_unreachable(address: UpstreamAddress) -> Iterator[None]:
    """Raise UnreachableError for every error of a connection in the block."""
    try:
        yield
    except TimeoutError:
        raise SlowUpstreamError(f"{address} did not answer in time") from None
    except (OSError, ValueError) as error:  # among the latter what is no JSON
        raise UnreachableError(f"{address} does not answer: {str(error) or type(error).__name__}") from None


_MAX_FILE_BYTES: Final = 1 << 20


class LocalUpstream:
    """The local gate, over connections that stay open.

    A new connection is made only while the gate is ready, as a Service would, unless the timeout allows an unready one:
    a gate that has just started has empty stores, and would defer what a peer can decide. A gate that drains decides
    as before.

    Its certificate is not verified: it is asked on the loopback interface of a network that no other pod shares, and it
    reloads its certificate at any time.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[UpstreamConnection] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """Send a review and return the response; each thread has a connection of its own.

        Raises:
            UnreachableError: if the gate is not running, or does not answer in time.
        """
        deadline = time.monotonic() + timeout.seconds
        with raise_unreachable(self._address):
            with suppress(IndexError):
                idle = self._idle.pop()
                try:
                    return self._send_over(idle, request, deadline)
                except TimeoutError:
                    raise
                except (OSError, ValueError):  # closed since it was used last, and the others with it
                    self._close_idle()
            connection = self._connect(deadline, allows_unready=timeout.allows_unready)
            return self._send_over(connection, request, deadline)

    def _connect(self, deadline: float, *, allows_unready: bool) -> UpstreamConnection:
        connection = UpstreamConnection(self._address, self._context, deadline)
        if not allows_unready:
            connection.check_ready(deadline)
        # One that is about to end closes each connection after an answer.
        return connection if connection.is_open else UpstreamConnection(self._address, self._context, deadline)

    def _send_over(self, connection: UpstreamConnection, request: RelayRequest, deadline: float) -> RelayResponse:
        response = connection.send(request, deadline)
        if connection.is_open:
            self._idle.append(connection)
        return response

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class PeerUpstream:
    """The replicas behind a name, over a new connection each time: so a Service leads to one, then to another.

    `relay_name` is the name of the relay that asks.
    """

    def __init__(self, service: PeerService, ca_file: Path, relay_name: str) -> None:
        self._service = service
        self._ca_file = ca_file
        self._headers = f"{RELAY_HEADER}: {relay_name}\r\nConnection: close\r\n"

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """Send a review and return the response.

        Raises:
            UnreachableError: if the replica is not running, does not answer in time, or has another certificate.
        """
        deadline = time.monotonic() + timeout.seconds
        with (
            raise_unreachable(self._service),
            closing(UpstreamConnection(self._service, self._create_context(), deadline)) as connection,
        ):
            return connection.send(request, deadline, self._headers)

    def _create_context(self) -> ssl.SSLContext:
        """Return a new context each time: the CA bundle changes, and peers are rarely asked."""
        try:
            with self._ca_file.open("rb") as file:
                text = file.read(_MAX_FILE_BYTES).decode()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=text)  # `create_default_context` trusts the system's for an empty text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise UnreachableError(f"{self._service} is not asked: {self._ca_file} cannot be read: {error}") from None
        return context
