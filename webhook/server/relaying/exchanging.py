"""What is said to a gate over a connection, and what breaks one told as silence."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.server.ports import SERVING
from webhook.server.relaying.ports import (
    RelayResponse,
    RelayRequest,
    SlowUpstreamError,
    UpstreamTimeout,
    PeerService,
    UnreachableError,
)
from webhook.server.settings.kinds import Address
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

    Raises:
        OSError: it cannot be had, within a second.
    """

    def __init__(self, address: UpstreamAddress, context: ssl.SSLContext, timeout: UpstreamTimeout) -> None:
        tcp_socket = socket.create_connection((address.host, address.port), min(_CONNECT_SECONDS, timeout.seconds))
        try:
            tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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

    def check_ready(self, timeout: UpstreamTimeout) -> None:
        """Go on if the gate is ready but for its own end.

        Raises:
            OSError, ValueError: it is not, or nobody can say.
        """
        response = self._exchange(f"GET /readyz HTTP/1.1\r\n{self._host_header}\r\n".encode(), timeout)
        checks = _READINESS_DECODER.decode(response.body).checks
        if failed := [name for name, check in checks.items() if not check.ready and name != SERVING]:
            self.close()
            raise ValueError(f"it is not ready: {', '.join(failed)}")

    def send(self, relay_request: RelayRequest, timeout: UpstreamTimeout, headers: str = "") -> RelayResponse:
        """Its answer. That there is no room or nobody else is as good as none.

        Raises:
            OSError, ValueError: there is none.
        """
        target = f"{quote(relay_request.path)}?timeout={max(1, int(timeout.announced_seconds * 1000))}ms"
        content_headers = f"Content-Type: application/json\r\nContent-Length: {len(relay_request.body)}\r\n"
        request = (
            f"POST {target} HTTP/1.1\r\n{self._host_header}{content_headers}{headers}\r\n".encode() + relay_request.body
        )
        response = self._exchange(request, timeout)
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.close()
            raise ValueError(f"it answered {response.status}")
        return response

    def _exchange(self, request: bytes, timeout: UpstreamTimeout) -> RelayResponse:
        try:
            exchanged: Exchanged = exchange(self._socket, request, time.monotonic() + timeout.seconds)
        except BaseException:
            self.close()
            raise
        if not exchanged.stays_open:
            self.close()
        return RelayResponse(exchanged.answer.status, exchanged.answer.body)


@contextmanager
def raise_unreachable(address: UpstreamAddress) -> Iterator[None]:
    """Tell what breaks a connection as silence."""
    try:
        yield
    except TimeoutError:
        raise SlowUpstreamError(f"{address} did not answer in time") from None
    except (OSError, ValueError) as error:  # among the latter what is no JSON
        raise UnreachableError(f"{address} does not answer: {str(error) or type(error).__name__}") from None
