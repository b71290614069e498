"""Lists and watches over the connection pool of the Kubernetes client, with a timeout for every wait.

The generated client decodes each object into its own Python objects. That takes too much time and memory for
100,000 pods. This module uses only its configuration, its authentication and its pool.

A separate thread reads the body of each watch. The reflector can do other work while the watch is silent.
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
_MAX_QUEUED_CHUNKS = 64  # chunks in the queue; when it is full, the server waits too
_CLOSE_POLL_SECONDS = 0.2
_JOIN_SECONDS = 0.5


class ThreadedWatchStream:
    """A `WatchStream` over a response whose body arrives at any time. `close` calls `release` once."""

    def __init__(self, response: urllib3.BaseHTTPResponse, release: Callable[[], None]) -> None:
        self._response = response
        self._release = release
        self._chunks: Queue[bytes | WatchError] = Queue(_MAX_QUEUED_CHUNKS)
        self._closed = Event()
        self._thread = Thread(target=self._read_chunks, name="watch-stream", daemon=True)
        self._thread.start()

    def read(self, timeout: float) -> bytes | None:
        """Return the next bytes, `b""` at the end, or None when no byte arrived for `timeout` seconds.

        Raises:
            WatchError: if the connection broke.
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
        with suppress(OSError, ValueError, RuntimeError):  # the response has already ended
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
_OVERDUE_WATCH_SECONDS = 90.0  # added to the duration of a watch: its socket then times out
_CHUNK_BYTES = 1024 * 1024
_MAX_RESPONSE_BYTES = 128 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_OK = 200


class ApiEndpoint(Protocol):
    """The URL of an API server, and the credentials. Each request calls `get_headers`, because tokens are renewed."""

    @property
    def server(self) -> str:
        """URL of the API server, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """Connection pool with the configured TLS."""
        ...

    def get_headers(self) -> dict[str, str]:
        """Return the headers that authenticate the gate.

        Raises:
            WatchError: if the token cannot be renewed.
        """
        ...


class PooledTransport:
    """A `Transport` over a pool. `close` breaks all open responses; later requests fail."""

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self._endpoint = endpoint
        self._lock = Lock()
        self._open_responses: set[urllib3.BaseHTTPResponse] = set()
        self._is_closed = False

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return one response of any status.

        Raises:
            WatchError: if the response does not arrive in time, or is too large.
        """
        response = self._request(path, query)
        try:
            return _read_response(response, _MAX_RESPONSE_BYTES)
        finally:
            self._release(response)

    def open(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return the stream of a watch, or the response that refuses it.

        Raises:
            WatchError: if neither arrives.
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
        """Break all open responses."""
        with self._lock:
            self._is_closed = True
            for response in self._open_responses:
                with suppress(OSError, ValueError, RuntimeError):  # the response has just ended
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
        """Close the connection of a response. After a complete read, the connection is already back in the pool."""
        with self._lock:
            self._open_responses.discard(response)
        with suppress(HTTPError, OSError, ValueError):
            response.close()


def _set_read_timeout(response: urllib3.BaseHTTPResponse, seconds: float) -> None:
    """Set the socket timeout of a watch in seconds. A watch may be silent: the reflector checks its progress."""
    sock: socket.socket | None = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _read_response(response: urllib3.BaseHTTPResponse, max_bytes: int) -> Response:
    """Read the whole body.

    Raises:
        WatchError: if the body does not arrive in time, breaks off, or is larger than `max_bytes`.
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
    """Parse `Retry-After` in seconds; kube-apiserver never sends a date."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < len("10000000") else None


def create_connection_error(error: Exception) -> WatchError:
    """Create the error for a broken connection."""
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.NewConnectionError | exceptions.SSLError):
        return WatchError(ApiErrorReason.UNREACHABLE, f"the API server cannot be reached: {error}")
    if isinstance(error, exceptions.ProxyError):
        return WatchError(
            ApiErrorReason.UNREACHABLE, f"the proxy in front of the API server cannot be reached: {error}"
        )
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return WatchError(ApiErrorReason.TIMEOUT, f"the API server does not answer: {error}")
    return WatchError(ApiErrorReason.RESET, f"the connection to the API server broke: {error}")
