"""Requests to the API server on direct connections that stay open (HTTP/1.1), with limits on every length and wait.

The write of a ledger is the longest part of a create under a cap. urllib3's pool takes three times as much time for a
request as this module, and a ledger's write then takes a quarter longer (docs/design/performance.md). Each request
leaves in one piece. A response with a length is read here, and any other one by http.client: that parses headers as
those of a mail, which takes as long as all the rest of a request. The connections have the TLS configuration of the
pool.
"""

import io
import re
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit
from weakref import finalize

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from tallygate.kube.api_errors import ApiError, ApiErrorReason

_MAX_IDLE_CONNECTIONS = 8  # connections; an idle one costs a socket here and in the API server
_CHUNK_BYTES = 64 * 1024
_RECORD_BYTES = 16 * 1024  # the most of a TLS record
_MAX_HEAD_BYTES = 64 * 1024
_HEAD_END = b"\r\n\r\n"
_STATUS_LINE = re.compile(r"HTTP/1\.1 (?!204|304)([2-5][0-9]{2})(?: [^\r\n]*)?")  # without those that have no body
_FIELD = re.compile(r"([-!#$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n]*)")  # RFC 9112, 5
_LENGTH = re.compile(r"[0-9]{1,15}")
_FRAMING = frozenset({"connection", "content-length", "transfer-encoding"})
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
            result, is_reusable = _read_response(polled.sock, deadline, max_bytes)
        except TimeoutError as error:
            raise ApiError(
                ApiErrorReason.TIMEOUT, f"the API server does not answer: {error}", detail=f"{error}"
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            message = f"the connection to the API server broke: {error}"
            raise ApiError(ApiErrorReason.RESET, message, detail=f"{error}") from None
        finally:
            self._release(polled, is_reusable=is_reusable)
        return result

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
        host, port = self._server.hostname or "", self._server.port
        connection: HTTPConnection
        if self._server.scheme == "https":
            options = self._pool.connection_pool_kw
            tls = {name: options[name] for name in _TLS_ARGUMENTS if options.get(name) is not None}
            connection = HTTPSConnection(host, port, timeout=timeout, **tls)
        else:
            connection = HTTPConnection(host, port, timeout=timeout)
        try:
            connection.connect()
        except (HTTPError, OSError) as error:
            connection.close()
            message = f"the API server cannot be reached: {error}"
            raise ApiError(ApiErrorReason.UNREACHABLE, message, may_be_applied=False, detail=f"{error}") from None
        sock: socket.socket = connection.sock
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return _PolledConnection(connection, sock, poll)


def _compute_remaining(deadline: float) -> float:
    """Return the seconds until the deadline, at least 1 ms: a socket with a timeout of 0 does not block at all."""
    return max(deadline - time.monotonic(), 0.001)


class _Head(NamedTuple):
    """The head of a response with a length: its status and its headers, by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    length: int


class _ReadAhead(io.RawIOBase):
    """The bytes of a response as a file: first those that were read before, then the rest from the socket."""

    def __init__(self, received: bytes, sock: socket.socket) -> None:
        super().__init__()
        self._received = received
        self._sock = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return the file that http.client reads, as a socket does."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:  # a writable buffer, as in io
        """Read the next bytes into the buffer, and return their number; 0 at the end."""
        if not self._received:
            return self._sock.recv_into(buffer)
        part = self._received[: len(buffer)]
        self._received = self._received[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def _read_response(sock: socket.socket, deadline: float, max_bytes: int) -> tuple[Http1Result, bool]:
    """Return a response, and whether the connection may be used again.

    Raises:
        OSError, HTTPException, ValueError: if it is incomplete, or not one of HTTP/1.
        ApiError: if it is too large.
    """
    received = sock.recv(_RECORD_BYTES)
    while _HEAD_END not in received and len(received) < _MAX_HEAD_BYTES:
        sock.settimeout(_compute_remaining(deadline))
        part = sock.recv(_RECORD_BYTES)
        if not part:
            break
        received += part
    text, _, content = received.partition(_HEAD_END)
    head = _parse_head(text.decode("latin-1"))
    if head is None:
        return _read_other_response(_ReadAhead(received, sock), sock, deadline, max_bytes)
    if head.length > max_bytes:
        raise _create_size_error(max_bytes, head.status)
    headers = head.headers
    content += _read_rest(sock, deadline, head.length - len(content))
    is_reusable = len(content) == head.length and "close" not in headers.get("connection", "").lower()
    content = content[: head.length]
    return Http1Result(
        head.status, content, headers.get("retry-after"), headers.get("date"), headers.get("etag")
    ), is_reusable


def _read_rest(sock: socket.socket, deadline: float, missing: int) -> bytes:
    chunks = list[bytes]()
    while missing > 0:
        sock.settimeout(_compute_remaining(deadline))
        chunk = sock.recv(min(missing, _CHUNK_BYTES))
        if not chunk:
            raise ConnectionError("it was closed in the middle of an answer")
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _parse_head(text: str) -> _Head | None:
    """Return the head of a response with a length; None of any other one."""
    status_line, *lines = text.split("\r\n")
    status = _STATUS_LINE.fullmatch(status_line)
    if status is None:
        return None
    headers = dict[str, str]()
    for line in lines:
        field = _FIELD.fullmatch(line)
        name = field[1].lower() if field else ""
        if field is None or (name in _FRAMING and name in headers):
            return None
        headers.setdefault(name, field[2].rstrip(" \t"))
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers or not _LENGTH.fullmatch(length):
        return None
    return _Head(int(status[1]), headers, int(length))


def _read_other_response(
    received: _ReadAhead, sock: socket.socket, deadline: float, max_bytes: int
) -> tuple[Http1Result, bool]:
    """Return a response by http.client, and whether the connection may be used again."""
    response = HTTPResponse(cast("socket.socket", received))
    try:
        response.begin()
        content = _read_body(response, sock, deadline, max_bytes)
        headers = (response.getheader(name) for name in ("Retry-After", "Date", "ETag"))
        return Http1Result(response.status, content, *headers), not response.will_close
    finally:
        response.close()


def _create_size_error(max_bytes: int, status: int) -> ApiError:
    return ApiError(ApiErrorReason.TOO_LARGE, f"an answer of more than {max_bytes} bytes", status=status)


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
            raise _create_size_error(max_bytes, response.status)
    if response.length:
        raise ConnectionError("it was closed in the middle of an answer")
    return b"".join(chunks)


def _close_all(connections: list[_PolledConnection]) -> None:
    while connections:
        with suppress(IndexError):
            connections.pop().connection.close()
