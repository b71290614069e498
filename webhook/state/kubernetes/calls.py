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
from webhook.state.exchange import Answer, exchange
from webhook.state.ports import StoreUnavailableError, UnknownOutcomeError

_CONNECT_SECONDS = 2.0
_MOST_KEPT = 8  # connections; an idle one costs a socket here and in the API server


class Access(Protocol):
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

    def headers(self) -> dict[str, str]:
        """Return the headers with the credentials.

        Raises:
            TallygateError: if the credentials are unavailable.
        """
        ...


class Request(NamedTuple):
    """A request; `accept` is the media type of the response."""

    method: str
    path: str
    accept: str
    body: bytes | None = None


class Caller:
    """A client of one API server, for any thread."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._server = urlsplit(access.server)
        self._kept: list[_Kept] = []
        finalize(self, _close, self._kept)

    def call(self, request: Request, patience: float) -> Answer:
        """Send one request and return its response, of any status, within `patience` seconds.

        Raises:
            UnknownOutcomeError: if the request may have arrived, and no response, or an incomplete one, was received.
            StoreUnavailableError: if the request has not arrived.
        """
        until = time.monotonic() + patience
        text = self._text(request)
        kept = self._connection(patience)
        stays_open = False
        try:
            answer, stays_open = exchange(kept.connection.sock, text, until)
        except TimeoutError as error:
            raise UnknownOutcomeError(f"the API server does not answer: {error}") from None
        except OSError as error:
            raise UnknownOutcomeError(f"the connection to the API server broke: {error}") from None
        except ValueError as error:
            raise UnknownOutcomeError(f"the API server's answer broke off: {error}") from None
        finally:
            self._leave(kept, stays_open=stays_open)
        return answer

    def _connection(self, patience: float) -> "_Kept":
        """Return an open connection, unless the server has closed it meanwhile; otherwise a new one."""
        while self._kept:
            with suppress(IndexError):  # another thread has taken the last one
                kept = self._kept.pop()
                if not kept.said.poll(0):
                    return kept
                kept.connection.close()
        connection = self._opened(min(_CONNECT_SECONDS, patience))
        said = select.poll()
        said.register(connection.sock, select.POLLIN)
        return _Kept(connection, said)

    def _leave(self, kept: "_Kept", *, stays_open: bool) -> None:
        if stays_open and len(self._kept) < _MOST_KEPT:
            self._kept.append(kept)
        else:
            kept.connection.close()

    def _opened(self, patience: float) -> HTTPConnection:
        """Return a connection as urllib3's pool creates it for itself; no public function does just that."""
        pool = self._access.pool.connection_from_url(self._access.server)
        connection: HTTPConnection = pool._new_conn()  # type: ignore[assignment]  # noqa: SLF001  # a HTTPConnection but in name
        connection.timeout = patience
        try:
            if pool.proxy is not None:
                pool._prepare_proxy(connection)  # type: ignore[arg-type]  # noqa: SLF001  # the same
            if connection.sock is None:  # urllib3 requests a tunnel from a proxy only for TLS
                connection.connect()
        except (HTTPError, OSError) as error:
            connection.close()
            raise StoreUnavailableError(f"the API server cannot be reached: {error}") from None
        return connection

    def _text(self, request: Request) -> bytes:
        try:
            headers = {"Host": self._server.netloc, "Accept": request.accept, **self._access.headers()}
        except TallygateError as error:
            raise StoreUnavailableError(f"who asks cannot be said: {error}") from error
        body = request.body or b""
        if request.body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": f"{len(body)}"}
        lines = [f"{request.method} {self._server.path}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


class _Kept(NamedTuple):
    """A connection, and a poll for unrequested input from the server: mostly the end of the connection."""

    connection: HTTPConnection
    said: select.poll


def _close(kept: list[_Kept]) -> None:
    for each in kept:
        each.connection.close()
