"""A client of one API server: single requests and watches over a connection pool, with limits on every length and wait.

The official client only configures authentication, TLS and the pool (`config`). Its generated classes decode
each object into Python objects of their own: that takes too much time and memory for 100,000 pods, and drops fields
that are newer than the classes.

A separate thread reads the body of each watch. The reflector can do other work while the watch is silent.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3 import HTTPHeaderDict, exceptions
from urllib3.exceptions import HTTPError

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.http1 import Http1Connections
from tallygate.kube.transport import Response, WatchStream

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
OBJECT_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_STREAM_CHUNK_BYTES = 256 * 1024
_MAX_QUEUED_CHUNKS = 64  # chunks in the queue; when it is full, the server waits too
_CLOSE_POLL_SECONDS = 0.2
_JOIN_SECONDS = 0.5
_OVERDUE_WATCH_SECONDS = 90.0  # added to the duration of a watch: its socket then times out
_CHUNK_BYTES = 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_MIN_TIMEOUT_SECONDS = 0.001  # a socket with a timeout of 0 does not block at all
_CONNECTION = re.compile(r"HTTPS?Connection(?:Pool)?\(host='[^']*', port=\d+\): |(?<=: )\[Errno -?\d+\] ")
_BROKEN = (HTTPError, OSError, ValueError)  # ValueError: closed while reading
_ENDED = (OSError, ValueError, RuntimeError)  # a shutdown of a response that has just ended


class ClientConfig:
    """The configuration for one API server: `server` is its URL, `pool` its connection pool."""

    def __init__(
        self,
        server: str,
        pool: urllib3.PoolManager,
        get_authorization: Callable[[], str],
        impersonation_headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Store the configuration. `get_authorization` returns a valid `Authorization` header, or an empty string."""
        self.server = server
        self.pool = pool
        self.get_authorization = get_authorization
        self._impersonation_headers = impersonation_headers

    @property
    def impersonates(self) -> bool:
        """Whether requests ask for the rights of another user."""
        return bool(self._impersonation_headers)

    @property
    def certificate(self) -> tuple[str, str | None] | None:
        """The files of the client certificate and of its key; None without one."""
        options = self.pool.connection_pool_kw
        return (options["cert_file"], options.get("key_file")) if options.get("cert_file") else None

    def create_headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the given headers after those that authenticate the client; a token about to expire is renewed first.

        Raises:
            ApiError: if the token cannot be renewed.
        """
        authorization = self.get_authorization()
        headers = {"Authorization": authorization, **headers} if authorization else headers
        if not self._impersonation_headers:
            return headers
        repeated = HTTPHeaderDict(headers)
        for name, value in self._impersonation_headers:
            repeated.add(name, value)
        return repeated


class ResponseLimits(NamedTuple):
    """The limits of one request, in seconds: for the connection, for each silence, and for the complete response."""

    connect: float
    silence: float
    total: float
    max_bytes: int


LIST_LIMITS: Final = ResponseLimits(5.0, 15.0, 60.0, 128 * 1024 * 1024)
OBJECT_LIMITS: Final = ResponseLimits(2.0, 30.0, 60.0, 8 * 1024 * 1024)
"""For requests with a timeout of their own. A ledger may have 1.5 MiB."""


class ThreadedWatchStream:
    """A `WatchStream` over a response whose body arrives at any time. `close` calls `release` once."""

    def __init__(self, response: urllib3.BaseHTTPResponse, release: Callable[[], None]) -> None:
        self._response = response
        self._release = release
        self._chunks: Queue[bytes | ApiError] = Queue(_MAX_QUEUED_CHUNKS)
        self._closed = Event()
        self._thread = Thread(target=self._read_chunks, name="watch-stream", daemon=True)
        self._thread.start()

    def read(self, timeout: float) -> bytes | None:
        """Return the next bytes, `b""` at the end, or None when no byte arrived for `timeout` seconds.

        Raises:
            ApiError: if the connection broke.
        """
        try:
            chunk = self._chunks.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(chunk, ApiError):
            raise chunk
        return chunk

    def close(self) -> None:
        """Break the connection and end the thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(*_ENDED):
            self._response.shutdown()
        with suppress(Full):  # a reader does not wait then
            self._chunks.put_nowait(b"")
        self._thread.join(_JOIN_SECONDS)
        self._release()

    def _read_chunks(self) -> None:
        try:
            while chunk := self._response.read1(_STREAM_CHUNK_BYTES):
                self._put(chunk)
            self._put(b"")
        except _BROKEN as error:
            self._put(ApiError(ApiErrorReason.RESET, f"a watch broke: {_describe(error)}", detail=_describe(error)))

    def _put(self, chunk: bytes | ApiError) -> None:
        while not self._closed.is_set():
            with suppress(Full):
                self._chunks.put(chunk, timeout=_CLOSE_POLL_SECONDS)
                return


class ApiClient:
    """A client of one API server, for any thread; it follows no redirect and repeats no request.

    Each method returns the response of any status. `timeout` is the time in seconds for the complete response, in place
    of `limits`; such a request uses `Http1Connections`, unless a proxy is configured. `close` breaks all open
    responses of the pool; later requests fail.
    """

    def __init__(
        self, config: ClientConfig, limits: ResponseLimits = LIST_LIMITS, user_agent: str = "tallygate"
    ) -> None:
        self._config = config
        self._limits = limits
        self._user_agent = user_agent
        self._lock = Lock()
        self._open_responses: set[urllib3.BaseHTTPResponse] = set()
        self._is_closed = False
        self._http1: Http1Connections | None = None
        self._is_direct = type(config.pool) is urllib3.PoolManager  # its subclasses use a proxy

    @property
    def server(self) -> str:
        """The URL of the API server, without a slash at the end."""
        return self._config.server

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        etag: str = "",
        timeout: float | None = None,
    ) -> Response:
        """Read an object or a page of a list; with the `etag` of a response, status 304 means the same content.

        Raises:
            ApiError: if no complete response arrives in time, or it is too large; the same for the other methods.
        """
        headers = {"Accept": accept} | ({"If-None-Match": etag} if etag else {})
        return self._exchange("GET", path, query, None, headers, timeout)

    def create(
        self,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> Response:
        """Create an object in the collection at a path."""
        return self._exchange("POST", path, query, body, {"Accept": accept, "Content-Type": JSON}, timeout)

    def replace(
        self,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> Response:
        """Replace the object at a path."""
        return self._exchange("PUT", path, query, body, {"Accept": accept, "Content-Type": JSON}, timeout)

    def patch(
        self, path: str, body: bytes, query: Mapping[str, str] | None = None, *, content_type: str = JSON_PATCH
    ) -> Response:
        """Patch the object at a path, by default by a JSON patch (RFC 6902)."""
        return self._exchange("PATCH", path, query, body, {"Accept": JSON, "Content-Type": content_type}, None)

    def delete(self, path: str, body: bytes, *, accept: str = JSON, timeout: float | None = None) -> Response:
        """Delete the object at a path; `body` are the DeleteOptions."""
        return self._exchange("DELETE", path, None, body, {"Accept": accept, "Content-Type": JSON}, timeout)

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return the stream of a watch, or the response that refuses it.

        Raises:
            ApiError: if neither arrives.
        """
        response = self._send("GET", path, query, None, {"Accept": JSON}, self._limits)
        if response.status == HTTPStatus.OK:
            _set_read_timeout(response, float(query.get("timeoutSeconds", "0")) + _OVERDUE_WATCH_SECONDS)
            return ThreadedWatchStream(response, lambda: self._release(response))
        return self._read(response, self._limits._replace(max_bytes=_MAX_ERROR_BYTES), time.monotonic())

    def close(self) -> None:
        """Break all open responses."""
        with self._lock:
            self._is_closed = True
            if self._http1 is not None:
                self._http1.close()
            for response in self._open_responses:
                with suppress(*_ENDED):
                    response.shutdown()

    def _exchange(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        headers: dict[str, str],
        timeout: float | None,
    ) -> Response:
        limits, started_at = self._limits, time.monotonic()
        if timeout is not None:
            timeout = max(timeout, _MIN_TIMEOUT_SECONDS)
            limits = ResponseLimits(min(limits.connect, timeout), timeout, timeout, limits.max_bytes)
            if self._is_direct:
                result = self._get_http1().exchange(
                    method,
                    _create_target(path, query),
                    self._create_headers(headers),
                    body,
                    connect_timeout=limits.connect,
                    deadline=started_at + timeout,
                    max_bytes=limits.max_bytes,
                )
                retry_after = _parse_retry_after(result.retry_after)
                return Response(result.status, result.body, retry_after, result.date or "", result.etag or "")
        return self._read(self._send(method, path, query, body, headers, limits), limits, started_at)

    def _get_http1(self) -> Http1Connections:
        with self._lock:
            if self._is_closed:
                raise ApiError(ApiErrorReason.RESET, "closed", may_be_applied=False)
            if self._http1 is None:
                self._http1 = Http1Connections(self._config.server, self._config.pool)
            return self._http1

    def _send(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        headers: dict[str, str],
        limits: ResponseLimits,
    ) -> urllib3.BaseHTTPResponse:
        try:
            response = self._config.pool.request(
                method,
                self._config.server + _create_target(path, query),
                body=body,
                headers=self._create_headers(headers),
                timeout=urllib3.Timeout(connect=limits.connect, read=limits.silence),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except _BROKEN as error:
            raise create_connection_error(error) from None
        with self._lock:
            if not self._is_closed:
                self._open_responses.add(response)
                return response
        response.close()
        raise ApiError(ApiErrorReason.RESET, "closed")  # the request may have arrived

    def _create_headers(self, headers: dict[str, str]) -> Mapping[str, str]:
        return self._config.create_headers({**headers, "User-Agent": self._user_agent})

    def _read(self, response: urllib3.BaseHTTPResponse, limits: ResponseLimits, started_at: float) -> Response:
        """Read the whole body and release the response.

        Raises:
            ApiError: if the body does not arrive in time, breaks off, or is too large.
        """
        try:
            body = _read_body(response, limits, started_at + limits.total)
        except _BROKEN as error:
            raise create_connection_error(error) from None
        finally:
            self._release(response)
        headers = response.headers
        retry_after = _parse_retry_after(headers.get("Retry-After"))
        return Response(response.status, body, retry_after, headers.get("Date") or "", headers.get("ETag") or "")

    def _release(self, response: urllib3.BaseHTTPResponse) -> None:
        """Close the connection of a response. After a complete read, the connection is already back in the pool."""
        with self._lock:
            self._open_responses.discard(response)
        with suppress(*_BROKEN):
            response.close()


def _create_target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _read_body(response: urllib3.BaseHTTPResponse, limits: ResponseLimits, deadline: float) -> bytes:
    chunks, length = list[bytes](), 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        length += len(chunk)
        if length > limits.max_bytes:
            raise ApiError(
                ApiErrorReason.TOO_LARGE, f"an answer of more than {limits.max_bytes} bytes", status=response.status
            )
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ApiError(
                ApiErrorReason.TIMEOUT,
                f"an answer that was not whole after {limits.total:.0f} s",
                status=response.status,
            )
        if remaining < limits.silence:
            _set_read_timeout(response, remaining)
    return b"".join(chunks)


def _set_read_timeout(response: urllib3.BaseHTTPResponse, seconds: float) -> None:
    """Set the socket timeout of a response in seconds, while it has a connection."""
    sock: socket.socket | None = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _parse_retry_after(text: str | None) -> float | None:
    """Parse `Retry-After` in seconds; kube-apiserver never sends a date."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < len("10000000") else None


def _describe(error: Exception) -> str:
    """Return the cause without urllib3's name for the connection: a caller names the server."""
    text = _CONNECTION.sub("", str(error))
    return f"{type(error).__name__} {text}" if isinstance(error, exceptions.SSLError) else text


def create_connection_error(error: Exception) -> ApiError:
    """Create the error for a broken connection."""
    reason, text, may_be_applied = ApiErrorReason.RESET, "the connection to the API server broke", True
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.NewConnectionError | exceptions.SSLError):
        reason, text = ApiErrorReason.UNREACHABLE, "the API server cannot be reached"
        may_be_applied = isinstance(error, exceptions.SSLError) and not _is_certificate_error(error)
    elif isinstance(error, exceptions.ProxyError):
        reason, text = ApiErrorReason.UNREACHABLE, "the proxy in front of the API server cannot be reached"
        may_be_applied = False
    elif isinstance(error, exceptions.TimeoutError | TimeoutError):
        reason, text = ApiErrorReason.TIMEOUT, "the API server does not answer"
    return ApiError(reason, f"{text}: {_describe(error)}", may_be_applied=may_be_applied, detail=_describe(error))


def _is_certificate_error(error: Exception) -> bool:
    """Return whether the handshake failed, so that no request was sent."""
    return any(isinstance(argument, ssl.SSLCertVerificationError) for argument in (*error.args, error.__cause__))


class _Version(msgspec.Struct, rename="camel"):
    """Info of apimachinery pkg/version/types.go."""

    git_version: str


def read_git_version(client: ApiClient, timeout: float | None = None) -> str | None:
    """Return the version of the API server, as `v1.37.2`; None if it does not report one within `timeout` seconds."""
    try:
        response = client.get("/version", timeout=timeout)
        if response.status != HTTPStatus.OK:
            return None
        return msgspec.json.decode(response.body, type=_Version).git_version.strip() or None
    except (ApiError, ValueError):
        return None
