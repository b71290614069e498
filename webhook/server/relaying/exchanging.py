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
from webhook.server.relaying.ports import Answered, Asked, LateError, Patience, Service, SilentError
from webhook.server.settings.kinds import Address
from webhook.state.exchange import Exchanged, exchange

_CONNECT_SECONDS: Final = 1.0  # within a cluster it takes a millisecond

Where = Address | Service


class _Check(msgspec.Struct):
    ready: bool


class _Readiness(msgspec.Struct):
    checks: dict[str, _Check]


_READINESS: Final = msgspec.json.Decoder(_Readiness)


class Connection:
    """One to a gate, over TLS. After anything but an answer it is closed: nobody knows what would come next on it.

    Raises:
        OSError: it cannot be had, within a second.
    """

    def __init__(self, where: Where, context: ssl.SSLContext, patience: Patience) -> None:
        plain = socket.create_connection((where.host, where.port), min(_CONNECT_SECONDS, patience.seconds))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = context.wrap_socket(plain, server_hostname=where.host)
        except BaseException:
            plain.close()
            raise
        self._host = f"Host: {where}\r\n"
        self.is_open = True

    def close(self) -> None:
        """Let go of it."""
        self.is_open = False
        self._socket.close()

    def check_ready(self, patience: Patience) -> None:
        """Go on if the gate is ready but for its own end.

        Raises:
            OSError, ValueError: it is not, or nobody can say.
        """
        found = self._exchange(f"GET /readyz HTTP/1.1\r\n{self._host}\r\n".encode(), patience)
        checks = _READINESS.decode(found.body).checks
        if missing := [name for name, check in checks.items() if not check.ready and name != SERVING]:
            self.close()
            raise ValueError(f"it is not ready: {', '.join(missing)}")

    def ask(self, asked: Asked, patience: Patience, headers: str = "") -> Answered:
        """Its answer. That there is no room or nobody else is as good as none.

        Raises:
            OSError, ValueError: there is none.
        """
        target = f"{quote(asked.path)}?timeout={max(1, int(patience.told * 1000))}ms"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(asked.body)}\r\n"
        request = f"POST {target} HTTP/1.1\r\n{self._host}{kind}{headers}\r\n".encode() + asked.body
        found = self._exchange(request, patience)
        if found.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.close()
            raise ValueError(f"it answered {found.status}")
        return found

    def _exchange(self, request: bytes, patience: Patience) -> Answered:
        try:
            exchanged: Exchanged = exchange(self._socket, request, time.monotonic() + patience.seconds)
        except BaseException:
            self.close()
            raise
        if not exchanged.stays_open:
            self.close()
        return Answered(exchanged.answer.status, exchanged.answer.body)


@contextmanager
def silence(where: Where) -> Iterator[None]:
    """Tell what breaks a connection as silence."""
    try:
        yield
    except TimeoutError:
        raise LateError(f"{where} did not answer in time") from None
    except (OSError, ValueError) as error:  # among the latter what is no JSON
        raise SilentError(f"{where} does not answer: {str(error) or type(error).__name__}") from None
