"""Lists and watches over the client's own connection pool: bytes in, and an end to every wait.

The generated client decodes each object into Python objects of its own, which is too slow and too fat for a hundred
thousand pods. So only its configuration, its authentication and its pool are used here.
"""

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Protocol

import urllib3
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from webhook.state.watch.failure import Reason, WatchError
from webhook.state.watch.ports import Answer, Stream
from webhook.state.watch.stream import PumpedStream

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 15.0
_WHOLE_SECONDS = 60.0
_OVER_SECONDS = 90.0  # more than a watch should last, until its socket is given up
_PIECE = 1024 * 1024
_MOST_BYTES = 128 * 1024 * 1024
_MOST_REFUSAL_BYTES = 64 * 1024
_OK = 200


class Access(Protocol):
    """Where the API server is, and who asks. Headers are asked for anew each time, since tokens are renewed."""

    @property
    def server(self) -> str:
        """Its URL, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """Connections, with TLS as it is configured."""
        ...

    def headers(self) -> dict[str, str]:
        """What says who asks.

        Raises:
            WatchError: it cannot be had.
        """
        ...


class PooledTransport:
    """A `Transport` over a pool. After `close` everything under way breaks, and nothing new begins."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._open: set[urllib3.BaseHTTPResponse] = set()
        self._closed = False

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """One answer, whatever its status.

        Raises:
            WatchError: there was none in time, or it is too large.
        """
        response = self._request(path, query)
        try:
            return _answer(response, _MOST_BYTES)
        finally:
            self._let_go(response)

    def open(self, path: str, query: Mapping[str, str]) -> Stream | Answer:
        """The stream of a watch, or the answer that refuses it.

        Raises:
            WatchError: there was neither.
        """
        response = self._request(path, query)
        if response.status == _OK:
            _be_patient(response, float(query.get("timeoutSeconds", "0")) + _OVER_SECONDS)
            return PumpedStream(response, lambda: self._let_go(response))
        try:
            return _answer(response, _MOST_REFUSAL_BYTES)
        finally:
            self._let_go(response)

    def close(self) -> None:
        """Break what is under way."""
        with self._lock:
            self._closed = True
            for response in self._open:
                with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
                    response.shutdown()

    def _request(self, path: str, query: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            response = self._access.pool.request(
                "GET",
                self._access.server + path,
                fields=dict(query),
                headers={**self._access.headers(), "Accept": "application/json", "User-Agent": "tallygate"},
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError, ValueError) as error:
            raise broken(error) from None
        with self._lock:
            if not self._closed:
                self._open.add(response)
                return response
        response.close()
        raise WatchError(Reason.RESET, "closed")

    def _let_go(self, response: urllib3.BaseHTTPResponse) -> None:
        """Close its connection, unless the body was read to its end: then the pool has it back already."""
        with self._lock:
            self._open.discard(response)
        with suppress(HTTPError, OSError, ValueError):
            response.close()


def _be_patient(response: urllib3.BaseHTTPResponse, seconds: float) -> None:
    """Once a watch has begun it may be silent for long: whoever follows it finds out what that means."""
    sock: socket.socket | None = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _answer(response: urllib3.BaseHTTPResponse, most: int) -> Answer:
    """Read the whole body.

    Raises:
        WatchError: it does not come in time, breaks off, or is larger than `most` bytes.
    """
    until, pieces, length = time.monotonic() + _WHOLE_SECONDS, list[bytes](), 0
    try:
        while piece := response.read(_PIECE):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                raise WatchError(Reason.TOO_LARGE, f"an answer of more than {most} bytes")
            if time.monotonic() > until:
                raise WatchError(Reason.TIMEOUT, f"an answer that was not whole after {_WHOLE_SECONDS:.0f} s")
    except (HTTPError, OSError, ValueError) as error:
        raise broken(error) from None
    return Answer(response.status, b"".join(pieces), _retry_after(response.headers.get("Retry-After")))


def _retry_after(text: str | None) -> float | None:
    """Seconds; kube-apiserver never sends a date here."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < len("10000000") else None


def broken(error: Exception) -> WatchError:
    """What a broken connection is called."""
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.NewConnectionError | exceptions.SSLError):
        return WatchError(Reason.UNREACHABLE, f"the API server cannot be reached: {error}")
    if isinstance(error, exceptions.ProxyError):
        return WatchError(Reason.UNREACHABLE, f"the proxy in front of the API server cannot be reached: {error}")
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return WatchError(Reason.TIMEOUT, f"the API server does not answer: {error}")
    return WatchError(Reason.RESET, f"the connection to the API server broke: {error}")
