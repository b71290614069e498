"""Requests to the API server on direct connections that stay open (HTTP/1.1), with limits on every length and wait.

The write of a ledger is the longest part of a create under a cap. urllib3's pool takes three times as much time for a
request as this module, and a ledger's write then takes a quarter longer (docs/design/performance.md). Each request
leaves in one piece, and http.client reads the response. The connections have the TLS configuration of the pool.
"""

import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit
from weakref import finalize

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from tallygate.kube.api_errors import ApiError, ApiErrorReason

_MAX_IDLE_CONNECTIONS = 8  # connections; an idle one costs a socket here and in the API server
_CHUNK_BYTES = 64 * 1024
_TLS_ARGUMENTS = (
    "cert_reqs",
    "ca_certs",
    "ca_cert_data",
    "cert_file",
    "key_file",
    "assert_hostname",
    "server_hostname",
)


class Http1Result(NamedTuple):
    """A response: its status, its body and the headers `Retry-After`, `Date` and `ETag`."""

    status: int
    body: bytes
    retry_after: str | None
    date: str | None
    etag: str | None = None


class _PolledConnection(NamedTuple):
    """A connection, and a poll for unrequested input from the server: mostly the end of the connection."""

    connection: HTTPConnection
    sock: socket.socket
    poll: select.poll


class Http1Connections:
    """Connections to one API server without a proxy in between, for any thread."""

    def __init__(self, server: str, pool: urllib3.PoolManager) -> None:
        self._server: SplitResult = urlsplit(server)
        self._pool = pool
        self._idle: list[_PolledConnection] = []
        self.close = finalize(self, _close_all, self._idle)

    def exchange(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_timeout: float,
        deadline: float,
        max_bytes: int,
    ) -> Http1Result:
        """Send one request and return its response of any status, before `deadline` (seconds of `time.monotonic`).

        Raises:
            ApiError: if no complete response arrives in time, or it is too large.
        """
        request = self._encode_request(method, target, headers, body)
        polled = self._acquire(connect_timeout)
        is_reusable = False
        try:
            polled.sock.settimeout(_compute_remaining(deadline))
            polled.sock.sendall(request)
            response = HTTPResponse(polled.sock, method=method)
            try:
                response.begin()
                content = _read_body(response, polled.sock, deadline, max_bytes)
                is_reusable = not response.will_close
                date, retry_after = response.getheader("Date"), response.getheader("Retry-After")
                etag = response.getheader("ETag")
            finally:
                response.close()
        except TimeoutError as error:
            raise ApiError(
                ApiErrorReason.TIMEOUT, f"the API server does not answer: {error}", detail=f"{error}"
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            message = f"the connection to the API server broke: {error}"
            raise ApiError(ApiErrorReason.RESET, message, detail=f"{error}") from None
        finally:
            self._release(polled, is_reusable=is_reusable)
        return Http1Result(response.status, content, retry_after, date, etag)

    def _encode_request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        target = f"{self._server.path}{target}"
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._server.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        if " " in target or not all(line.isascii() and line.isprintable() for line in lines):
            raise ApiError(ApiErrorReason.REFUSED, "a request that cannot be sent", may_be_applied=False)
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")

    def _acquire(self, connect_timeout: float) -> _PolledConnection:
        """Return an open connection, unless the server has closed it meanwhile; otherwise a new one."""
        while self._idle:
            with suppress(IndexError):  # another thread has taken the last one
                idle_connection = self._idle.pop()
                if not idle_connection.poll.poll(0):
                    return idle_connection
                idle_connection.connection.close()
        return self._connect(connect_timeout)

    def _release(self, polled: _PolledConnection, *, is_reusable: bool) -> None:
        if is_reusable and self.close.alive and len(self._idle) < _MAX_IDLE_CONNECTIONS:
            self._idle.append(polled)
        else:
            polled.connection.close()

    def _connect(self, timeout: float) -> _PolledConnection:
        connection = connect(self._server, self._pool, timeout)
        sock: socket.socket = connection.sock
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return _PolledConnection(connection, sock, poll)


def connect(server: SplitResult, pool: urllib3.PoolManager, timeout: float) -> HTTPConnection:
    """Return a new connection to an API server, with the TLS configuration of the pool, and through its HTTP proxy.

    Raises:
        ApiError: if it cannot be opened within `timeout` seconds.
    """
    options, proxy = pool.connection_pool_kw, pool.proxy
    host, port = (server.hostname or "", server.port) if proxy is None else (proxy.host or "", proxy.port)
    through: dict[str, Any] = {} if proxy is None else {"proxy": proxy, "proxy_config": pool.proxy_config}
    connection: HTTPConnection
    if server.scheme == "https":
        tls = {name: options[name] for name in _TLS_ARGUMENTS if options.get(name) is not None}
        connection = HTTPSConnection(host, port, timeout=timeout, **tls, **through)
    else:
        connection = HTTPConnection(host, port, timeout=timeout, **through)
    if proxy is not None:
        headers, scheme = options.get("_proxy_headers"), proxy.scheme or "http"
        connection.set_tunnel(server.hostname or "", server.port, headers, scheme)
    try:
        connection.connect()
    except (HTTPError, OSError) as error:
        connection.close()
        message = f"the API server cannot be reached: {error}"
        raise ApiError(ApiErrorReason.UNREACHABLE, message, may_be_applied=False, detail=f"{error}") from None
    return connection


def _compute_remaining(deadline: float) -> float:
    """Return the seconds until the deadline, at least 1 ms: a socket with a timeout of 0 does not block at all."""
    return max(deadline - time.monotonic(), 0.001)


def _read_body(response: HTTPResponse, sock: socket.socket, deadline: float, max_bytes: int) -> bytes:
    chunks, length = list[bytes](), 0
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("it was not whole in time")
        sock.settimeout(remaining)
        chunk = response.read1(_CHUNK_BYTES)
        if not chunk:
            break
        chunks.append(chunk)
        length += len(chunk)
        if length > max_bytes:
            raise ApiError(
                ApiErrorReason.TOO_LARGE, f"an answer of more than {max_bytes} bytes", status=response.status
            )
    if response.length:
        raise ConnectionError("it was closed in the middle of an answer")
    return b"".join(chunks)


def _close_all(connections: list[_PolledConnection]) -> None:
    while connections:
        with suppress(IndexError):
            connections.pop().connection.close()
