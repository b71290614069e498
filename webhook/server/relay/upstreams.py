"""What is said to a gate over a connection, and what breaks one told as silence.

Gates that are asked by HTTPS: the one beside the relay, and whichever other replica a name leads to.
"""

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.server.interfaces import SERVING
from webhook.server.relay.failover import (
    RELAY_HEADER,
    PeerService,
    RelayRequest,
    RelayResponse,
    SlowUpstreamError,
    UnreachableError,
    UpstreamTimeout,
)
from webhook.server.settings.value_types import Address
from webhook.state.exchange import Exchanged, exchange

_CONNECT_SECONDS: Final = 1.0  # within a cluster it takes a millisecond

UpstreamAddress = Address | PeerService


class _Check(msgspec.Struct):
    ready: bool


class _Readiness(msgspec.Struct):
    checks: dict[str, _Check]


_READINESS_DECODER: Final = msgspec.json.Decoder(_Readiness)


class UpstreamConnection:
    """One to a gate, over TLS. After anything but an answer it is closed: nobody knows what would come next on it.

    Every `deadline` is in seconds of `time.monotonic`.

    Raises:
        OSError: the connection was not made before the deadline, or within a second.
    """

    def __init__(self, address: UpstreamAddress, context: ssl.SSLContext, deadline: float) -> None:
        connect_deadline = min(deadline, time.monotonic() + _CONNECT_SECONDS)
        tcp_socket = socket.create_connection((address.host, address.port), _remaining_seconds(connect_deadline))
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
        """Let go of it."""
        self.is_open = False
        self._socket.close()

    def check_ready(self, deadline: float) -> None:
        """Go on if the gate is ready but for its own end.

        Raises:
            OSError, ValueError: it is not, or nobody can say.
        """
        response = self._exchange(f"GET /readyz HTTP/1.1\r\n{self._host_header}\r\n".encode(), deadline)
        checks = _READINESS_DECODER.decode(response.body).checks
        if failed := [name for name, check in checks.items() if not check.ready and name != SERVING]:
            self.close()
            raise ValueError(f"it is not ready: {', '.join(failed)}")

    def send(self, relay_request: RelayRequest, deadline: float, headers: str = "") -> RelayResponse:
        """Its answer. That there is no room or nobody else is as good as none.

        Raises:
            OSError, ValueError: there is none.
        """
        announced_seconds = UpstreamTimeout(_remaining_seconds(deadline)).announced_seconds
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
            exchanged: Exchanged = exchange(self._socket, request, deadline)
        except BaseException:
            self.close()
            raise
        if not exchanged.stays_open:
            self.close()
        return RelayResponse(exchanged.answer.status, exchanged.answer.body)


def _remaining_seconds(deadline: float) -> float:
    """Return the seconds until the deadline, at least 1 ms: a socket with a timeout of 0 does not block at all."""
    return max(deadline - time.monotonic(), 0.001)


@contextmanager
def raise_unreachable(address: UpstreamAddress) -> Iterator[None]:
    """Tell what breaks a connection as silence."""
    try:
        yield
    except TimeoutError:
        raise SlowUpstreamError(f"{address} did not answer in time") from None
    except (OSError, ValueError) as error:  # among the latter what is no JSON
        raise UnreachableError(f"{address} does not answer: {str(error) or type(error).__name__}") from None


_MAX_FILE_BYTES: Final = 1 << 20


class LocalUpstream:
    """The gate beside the relay, over connections that are kept.

    A new connection is made only while the gate is ready, as by a Service, but for who insists: one that has just begun
    knows nothing yet, and would put off what another can decide. One that is about to end is as good as ever.

    Its certificate is not verified: it is asked on the loopback interface of a network that nobody else is in, and when
    it takes up another certificate is its own affair.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[UpstreamConnection] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """What it says. Of several threads each has a connection of its own.

        Raises:
            SilentError: it does not live, or takes longer.
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
    """Whichever replica a name leads to, by a new connection each time: so a Service leads to one, then to another.

    `name` is that of the relay which asks.
    """

    def __init__(self, service: PeerService, ca_file: Path, relay_name: str) -> None:
        self._service = service
        self._ca_file = ca_file
        self._headers = f"{RELAY_HEADER}: {relay_name}\r\nConnection: close\r\n"

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """What it says.

        Raises:
            SilentError: it does not live, takes longer, or is not who it should be.
        """
        deadline = time.monotonic() + timeout.seconds
        with (
            raise_unreachable(self._service),
            closing(UpstreamConnection(self._service, self._create_context(), deadline)) as connection,
        ):
            return connection.send(request, deadline, self._headers)

    def _create_context(self) -> ssl.SSLContext:
        """Made anew each time, since who is trusted changes, and nobody is asked often."""
        try:
            with self._ca_file.open("rb") as file:
                text = file.read(_MAX_FILE_BYTES).decode()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=text)  # `create_default_context` trusts the system's for an empty text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise UnreachableError(f"{self._service} is not asked: {self._ca_file} cannot be read: {error}") from None
        return context
