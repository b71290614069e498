"""One HTTP request and its response on an open connection (HTTP/1.1, RFC 9112), with limits on every length and wait.

A relay sends every review. http.client takes 108 µs of CPU for one, where the relay takes 61 with this module
(docs/design/performance.md).
"""

import socket
import time
from typing import NamedTuple

_RECEIVE_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 8 * 1024 * 1024
_BODILESS_STATUSES = frozenset({204, 304})
_MIN_FINAL_STATUS = 200


class HttpResponse(NamedTuple):
    """A complete response; `retry_after` is its header `Retry-After`, empty without one."""

    status: int
    body: bytes
    retry_after: str = ""


class ExchangeResult(NamedTuple):
    """A response, and whether the connection may be used again."""

    response: HttpResponse
    stays_open: bool


def exchange(connection: socket.socket, request: bytes, deadline: float) -> ExchangeResult:
    """Send the bytes of a request and read the response, before `deadline` (seconds of `time.monotonic`).

    Raises:
        OSError: if the connection broke, or the response took too long (TimeoutError).
        ValueError: if the bytes are not a valid response, or exceed the limits.
    """
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    connection.sendall(request)
    return _ResponseReader(connection, deadline).read_response()


class _ResponseReader:
    """The incoming bytes of a connection."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._buffer = bytearray()

    def read_response(self) -> ExchangeResult:
        status, headers = self._read_head()
        while status < _MIN_FINAL_STATUS:
            status, headers = self._read_head()
        stays_open = headers.get(b"connection", b"").lower() != b"close"
        if status in _BODILESS_STATUSES:
            body = b""
        elif headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = self._read_chunks()
        elif b"content-length" in headers:
            body = self._read_exactly(_parse_length(headers[b"content-length"], 10))
        else:
            body, stays_open = self._read_to_end(), False
        retry_after = headers.get(b"retry-after", b"").decode("latin-1")
        return ExchangeResult(HttpResponse(status, body, retry_after), stays_open and not self._buffer)

    def _read_head(self) -> tuple[int, dict[bytes, bytes]]:
        """Return the status and the headers; of a repeated header, the last one."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise ValueError(f"more than {_MAX_HEAD_BYTES} bytes of headers")
            self._receive()
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        version, _, rest = first.partition(b" ")
        if version != b"HTTP/1.1" or not rest[:3].isdigit():
            raise ValueError(f"not an answer of HTTP/1.1: {first[:40]!r}")
        parts = (line.partition(b":") for line in lines)
        return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in parts}

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while length := _parse_length(self._read_line().partition(b";")[0].strip(), 16):
            if len(body) + length > _MAX_BODY_BYTES:
                raise ValueError(f"more than {_MAX_BODY_BYTES} bytes")
            body += self._read_exactly(length)
            self._read_line()
        while self._read_line():  # trailers
            pass
        return bytes(body)

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise ValueError(f"a line of more than {_MAX_HEAD_BYTES} bytes")
            self._receive()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _read_exactly(self, length: int) -> bytes:
        if length > _MAX_BODY_BYTES:
            raise ValueError(f"more than {_MAX_BODY_BYTES} bytes")
        while len(self._buffer) < length:
            self._receive()
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _read_to_end(self) -> bytes:
        while self._receive_if_open():
            if len(self._buffer) > _MAX_BODY_BYTES:
                raise ValueError(f"more than {_MAX_BODY_BYTES} bytes")
        body = bytes(self._buffer)
        self._buffer.clear()
        return body

    def _receive(self) -> None:
        if not self._receive_if_open():
            raise ConnectionError("it was closed in the middle of an answer")

    def _receive_if_open(self) -> bool:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("it was not whole in time")
        self._connection.settimeout(remaining)
        received = self._connection.recv(_RECEIVE_BYTES)
        self._buffer += received
        return bool(received)


def _parse_length(digits: bytes, base: int) -> int:
    """Return the length in these digits; int() alone would accept signs, spaces and underscores."""
    if not digits.isalnum():
        raise ValueError(f"not a length: {digits[:40]!r}")
    return int(digits, base)
