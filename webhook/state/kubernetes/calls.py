"""Requests to the API server on connections that stay open, with a limit on every wait.

The important property of a failure is whether the request may have arrived: after such a write the caller reads the
object, and does not repeat the write.
"""

import select
import time
from contextlib import suppress
from http.client import HTTPConnection
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import finalize

import urllib3
from urllib3.exceptions import HTTPError

from webhook.errors import TallygateError
from webhook.state.exchange import HttpResponse, exchange
from webhook.state.ports import StoreUnavailableError, UnknownOutcomeError

_CONNECT_TIMEOUT_SECONDS = 2.0
_MAX_IDLE_CONNECTIONS = 8  # connections; an idle one costs a socket here and in the API server


class Http1ClientConfig(Protocol):
    """The address of the API server, and the credentials.

    The headers are read for each request, since tokens are renewed.
    """

    @property
    def server(self) -> str:
        """The URL of the API server, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """A pool that opens connections, with TLS and a proxy as configured."""
        ...

    def get_headers(self) -> dict[str, str]:
        """Return the headers with the credentials.

        Raises:
            TallygateError: if the credentials are unavailable.
        """
        ...


class Http1Request(NamedTuple):
    """A request; `accept` is the media type of the response."""

    method: str
    path: str
    accept: str
    body: bytes | None = None


class Http1Client:
    """A client of one API server, for any thread."""

    def __init__(self, client_config: Http1ClientConfig) -> None:
        self._client_config = client_config
        self._server = urlsplit(client_config.server)
        self._idle: list[_PolledConnection] = []
        finalize(self, _close_all, self._idle)

    def send(self, request: Http1Request, timeout: float) -> HttpResponse:
        """Send one request and return its response, of any status, within `patience` seconds.

        Raises:
            UnknownOutcomeError: if the request may have arrived, and no response, or an incomplete one, was received.
            StoreUnavailableError: if the request has not arrived.
        """
        deadline = time.monotonic() + timeout
        encoded_request = self._encode_request(request)
        connection = self._acquire(timeout)
        stays_open = False
        try:
            response, stays_open = exchange(connection.connection.sock, encoded_request, deadline)
        except TimeoutError as error:
            raise UnknownOutcomeError(f"the API server does not answer: {error}") from None
        except OSError as error:
            raise UnknownOutcomeError(f"the connection to the API server broke: {error}") from None
        except ValueError as error:
            raise UnknownOutcomeError(f"the API server's answer broke off: {error}") from None
        finally:
            self._release(connection, stays_open=stays_open)
        return response

    def _acquire(self, timeout: float) -> "_PolledConnection":
        """Return an open connection, unless the server has closed it meanwhile; otherwise a new one."""
        while self._idle:
            with suppress(IndexError):  # another thread has taken the last one
                idle_connection = self._idle.pop()
                if not idle_connection.poll.poll(0):
                    return idle_connection
                idle_connection.connection.close()
        connection = self._open(min(_CONNECT_TIMEOUT_SECONDS, timeout))
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return _PolledConnection(connection, poll)

    def _release(self, connection: "_PolledConnection", *, stays_open: bool) -> None:
        if stays_open and len(self._idle) < _MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.connection.close()

    def _open(self, timeout: float) -> HTTPConnection:
        """Return a connection as urllib3's pool creates it for itself; no public function does just that."""
        pool = self._client_config.pool.connection_from_url(self._client_config.server)
        connection: HTTPConnection = pool._new_conn()  # type: ignore[assignment]  # noqa: SLF001  # a HTTPConnection but in name
        connection.timeout = timeout
        try:
            if pool.proxy is not None:
                pool._prepare_proxy(connection)  # type: ignore[arg-type]  # noqa: SLF001  # the same
            if connection.sock is None:  # urllib3 requests a tunnel from a proxy only for TLS
                connection.connect()
        except (HTTPError, OSError) as error:
            connection.close()
            raise StoreUnavailableError(f"the API server cannot be reached: {error}") from None
        return connection

    def _encode_request(self, request: Http1Request) -> bytes:
        try:
            headers = {"Host": self._server.netloc, "Accept": request.accept, **self._client_config.get_headers()}
        except TallygateError as error:
            raise StoreUnavailableError(f"who asks cannot be said: {error}") from error
        body = request.body or b""
        if request.body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": f"{len(body)}"}
        lines = [f"{request.method} {self._server.path}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


class _PolledConnection(NamedTuple):
    """A connection, and a poll for unrequested input from the server: mostly the end of the connection."""

    connection: HTTPConnection
    poll: select.poll


def _close_all(connections: list[_PolledConnection]) -> None:
    for each in connections:
        each.connection.close()
