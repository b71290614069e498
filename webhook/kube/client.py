"""The body of a watch, read by a thread of its own, so that whoever follows it can look around while it is silent.

Lists and watches over the client's own connection pool: bytes in, and an end to every wait.

The generated client decodes each object into Python objects of its own, which is too slow and too fat for a hundred
thousand pods. So only its configuration, its authentication and its pool are used here.
"""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import Protocol

import urllib3
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from webhook.kube.api_errors import ApiErrorReason, WatchError
from webhook.kube.transport import Response, WatchStream

_STREAM_CHUNK_BYTES = 256 * 1024
_MAX_QUEUED_CHUNKS = 64  # pieces that may wait to be read; then the server waits too
_CLOSE_POLL_SECONDS = 0.2
_JOIN_SECONDS = 0.5


class ThreadedWatchStream:
    """A `Stream` over a response whose body comes as it likes. `let_go` is called once, when it is closed."""

    def __init__(self, response: urllib3.BaseHTTPResponse, release: Callable[[], None]) -> None:
        self._response = response
        self._release = release
        self._chunks: Queue[bytes | WatchError] = Queue(_MAX_QUEUED_CHUNKS)
        self._closed = Event()
        self._thread = Thread(target=self._read_chunks, name="watch-stream", daemon=True)
        self._thread.start()

    def read(self, timeout: float) -> bytes | None:
        """The next bytes, `b""` at the end, or None when nothing came for so many seconds.

        Raises:
            WatchError: the connection broke.
        """
        try:
            chunk = self._chunks.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(chunk, WatchError):
            raise chunk
        return chunk

    def close(self) -> None:
        """Break the connection and end the thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError, ValueError, RuntimeError):  # it has ended by itself
            self._response.shutdown()
        self._thread.join(_JOIN_SECONDS)
        self._release()

    def _read_chunks(self) -> None:
        try:
            while chunk := self._response.read1(_STREAM_CHUNK_BYTES):
                self._put(chunk)
            self._put(b"")
        except (HTTPError, OSError, ValueError) as error:  # ValueError: closed while reading
            self._put(WatchError(ApiErrorReason.RESET, f"a watch broke: {error}"))

    def _put(self, chunk: bytes | WatchError) -> None:
        while not self._closed.is_set():
            with suppress(Full):
                self._chunks.put(chunk, timeout=_CLOSE_POLL_SECONDS)
                return


_CONNECT_TIMEOUT_SECONDS = 5.0
_READ_TIMEOUT_SECONDS = 15.0
_TOTAL_TIMEOUT_SECONDS = 60.0
_OVERDUE_WATCH_SECONDS = 90.0  # more than a watch should last, until its socket is given up
_CHUNK_BYTES = 1024 * 1024
_MAX_RESPONSE_BYTES = 128 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_OK = 200


class ApiEndpoint(Protocol):
    """Where the API server is, and who asks. Headers are asked for anew each time, since tokens are renewed."""

    @property
    def server(self) -> str:
        """Its URL, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """Connections, with TLS as it is configured."""
        ...

    def get_headers(self) -> dict[str, str]:
        """What says who asks.

        Raises:
            WatchError: it cannot be had.
        """
        ...


class PooledTransport:
    """A `Transport` over a pool. After `close` everything under way breaks, and nothing new begins."""

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self._endpoint = endpoint
        self._lock = Lock()
        self._open_responses: set[urllib3.BaseHTTPResponse] = set()
        self._is_closed = False

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """One answer, whatever its status.

        Raises:
            WatchError: there was none in time, or it is too large.
        """
        response = self._request(path, query)
        try:
            return _read_response(response, _MAX_RESPONSE_BYTES)
        finally:
            self._release(response)

    def open(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """The stream of a watch, or the answer that refuses it.

        Raises:
            WatchError: there was neither.
        """
        response = self._request(path, query)
        if response.status == _OK:
            _set_read_timeout(response, float(query.get("timeoutSeconds", "0")) + _OVERDUE_WATCH_SECONDS)
            return ThreadedWatchStream(response, lambda: self._release(response))
        try:
            return _read_response(response, _MAX_ERROR_BYTES)
        finally:
            self._release(response)

    def close(self) -> None:
        """Break what is under way."""
        with self._lock:
            self._is_closed = True
            for response in self._open_responses:
                with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
                    response.shutdown()

    def _request(self, path: str, query: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            response = self._endpoint.pool.request(
                "GET",
                self._endpoint.server + path,
                fields=dict(query),
                headers={**self._endpoint.get_headers(), "Accept": "application/json", "User-Agent": "tallygate"},
                timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT_SECONDS, read=_READ_TIMEOUT_SECONDS),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError, ValueError) as error:
            raise create_connection_error(error) from None
        with self._lock:
            if not self._is_closed:
                self._open_responses.add(response)
                return response
        response.close()
        raise WatchError(ApiErrorReason.RESET, "closed")

    def _release(self, response: urllib3.BaseHTTPResponse) -> None:
        """Close its connection, unless the body was read to its end: then the pool has it back already."""
        with self._lock:
            self._open_responses.discard(response)
        with suppress(HTTPError, OSError, ValueError):
            response.close()


def _set_read_timeout(response: urllib3.BaseHTTPResponse, seconds: float) -> None:
    """Once a watch has begun it may be silent for long: whoever follows it finds out what that means."""
    sock: socket.socket | None = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _read_response(response: urllib3.BaseHTTPResponse, max_bytes: int) -> Response:
    """Read the whole body.

    Raises:
        WatchError: it does not come in time, breaks off, or is larger than `most` bytes.
    """
    deadline, chunks, length = time.monotonic() + _TOTAL_TIMEOUT_SECONDS, list[bytes](), 0
    try:
        while chunk := response.read(_CHUNK_BYTES):
            chunks.append(chunk)
            length += len(chunk)
            if length > max_bytes:
                raise WatchError(ApiErrorReason.TOO_LARGE, f"an answer of more than {max_bytes} bytes")
            if time.monotonic() > deadline:
                raise WatchError(
                    ApiErrorReason.TIMEOUT, f"an answer that was not whole after {_TOTAL_TIMEOUT_SECONDS:.0f} s"
                )
    except (HTTPError, OSError, ValueError) as error:
        raise create_connection_error(error) from None
    return Response(response.status, b"".join(chunks), _parse_retry_after(response.headers.get("Retry-After")))


def _parse_retry_after(text: str | None) -> float | None:
    """Seconds; kube-apiserver never sends a date here."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < len("10000000") else None


def create_connection_error(error: Exception) -> WatchError:
    """What a broken connection is called."""
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.NewConnectionError | exceptions.SSLError):
        return WatchError(ApiErrorReason.UNREACHABLE, f"the API server cannot be reached: {error}")
    if isinstance(error, exceptions.ProxyError):
        return WatchError(
            ApiErrorReason.UNREACHABLE, f"the proxy in front of the API server cannot be reached: {error}"
        )
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return WatchError(ApiErrorReason.TIMEOUT, f"the API server does not answer: {error}")
    return WatchError(ApiErrorReason.RESET, f"the connection to the API server broke: {error}")
