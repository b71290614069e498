"""Requests to the API server on connections that stay open, with an end to every wait.

What matters of a failure is whether the request may have arrived: a write that may have is looked up, not repeated.
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
_MOST_KEPT = 8  # connections; one that is idle costs a socket here and there


class Access(Protocol):
    """Where the API server is, and who asks. Headers are asked for anew each time, since tokens are renewed."""

    @property
    def server(self) -> str:
        """Its URL, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """Opens connections, with TLS and a proxy as they are configured."""
        ...

    def headers(self) -> dict[str, str]:
        """What says who asks.

        Raises:
            TallygateError: it cannot be had.
        """
        ...


class Request(NamedTuple):
    """What is asked; `accept` is the media type of the answer."""

    method: str
    path: str
    accept: str
    body: bytes | None = None


class Caller:
    """Asks one API server. Any thread may."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._server = urlsplit(access.server)
        self._kept: list[_Kept] = []
        finalize(self, _close, self._kept)

    def call(self, request: Request, patience: float) -> Answer:
        """One request and its answer, whatever its status, within `patience` seconds.

        Raises:
            LostAnswerError: the request may have arrived; no answer came, or none that is whole.
            StoreUnavailableError: it has not.
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
        """One that stayed open, unless the server has closed it meanwhile; or a new one."""
        while self._kept:
            with suppress(IndexError):  # somebody else has taken the last
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
        """A connection as urllib3's pool makes it for itself; there is no public way to have just that."""
        pool = self._access.pool.connection_from_url(self._access.server)
        connection: HTTPConnection = pool._new_conn()  # type: ignore[assignment]  # noqa: SLF001  # a HTTPConnection but in name
        connection.timeout = patience
        try:
            if pool.proxy is not None:
                pool._prepare_proxy(connection)  # type: ignore[arg-type]  # noqa: SLF001  # the same
            if connection.sock is None:  # a proxy is asked for a tunnel only where there is TLS
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
    """A connection, and what tells whether the server has said something unasked: mostly that it has closed it."""

    connection: HTTPConnection
    said: select.poll


def _close(kept: list[_Kept]) -> None:
    for each in kept:
        each.connection.close()
