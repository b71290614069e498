"""One HTTP request and its response on an open connection (HTTP/1.1, RFC 9112), with limits on every length and wait.

The write to the API server is the longest part of a create under a cap. urllib3 and http.client together take 0.3 ms of
Python for each request, as long as the API server itself; this module takes a tenth of that. They still open the
connections.
"""

import socket
import time
from typing import NamedTuple

_PIECE = 64 * 1024
_MOST_HEAD = 64 * 1024
_MOST_BYTES = 8 * 1024 * 1024
_NO_BODY = frozenset({204, 304})
_FIRST_FINAL = 200


class Answer(NamedTuple):
    """A complete response."""

    status: int
    body: bytes


class Exchanged(NamedTuple):
    """A response, and whether the connection may be used again."""

    answer: Answer
    stays_open: bool


def exchange(connection: socket.socket, request: bytes, until: float) -> Exchanged:
    """Send the bytes of a request and read the response, before `until` (seconds of `time.monotonic`).

    Raises:
        OSError: if the connection broke, or the response took too long (TimeoutError).
        ValueError: if the bytes are not a valid response, or exceed the limits.
    """
    connection.settimeout(max(until - time.monotonic(), 0.001))
    connection.sendall(request)
    return _Incoming(connection, until).answer()


class _Incoming:
    """The incoming bytes of a connection."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until
        self._come = bytearray()

    def answer(self) -> Exchanged:
        status, headers = self._head()
        while status < _FIRST_FINAL:
            status, headers = self._head()
        stays_open = headers.get(b"connection", b"").lower() != b"close"
        if status in _NO_BODY:
            body = b""
        elif headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = self._chunks()
        elif b"content-length" in headers:
            body = self._exactly(_length(headers[b"content-length"], 10))
        else:
            body, stays_open = self._rest(), False
        return Exchanged(Answer(status, body), stays_open and not self._come)

    def _head(self) -> tuple[int, dict[bytes, bytes]]:
        """Return the status and the headers; of a repeated header, the last one."""
        while (end := self._come.find(b"\r\n\r\n")) < 0:
            if len(self._come) > _MOST_HEAD:
                raise ValueError(f"more than {_MOST_HEAD} bytes of headers")
            self._more()
        first, *lines = bytes(self._come[:end]).split(b"\r\n")
        del self._come[: end + 4]
        version, _, rest = first.partition(b" ")
        if version != b"HTTP/1.1" or not rest[:3].isdigit():
            raise ValueError(f"not an answer of HTTP/1.1: {first[:40]!r}")
        parts = (line.partition(b":") for line in lines)
        return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in parts}

    def _chunks(self) -> bytes:
        body = bytearray()
        while length := _length(self._line().partition(b";")[0].strip(), 16):
            if len(body) + length > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            body += self._exactly(length)
            self._line()
        while self._line():  # trailers
            pass
        return bytes(body)

    def _line(self) -> bytes:
        while (end := self._come.find(b"\r\n")) < 0:
            if len(self._come) > _MOST_HEAD:
                raise ValueError(f"a line of more than {_MOST_HEAD} bytes")
            self._more()
        line = bytes(self._come[:end])
        del self._come[: end + 2]
        return line

    def _exactly(self, length: int) -> bytes:
        if length > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        while len(self._come) < length:
            self._more()
        body = bytes(self._come[:length])
        del self._come[:length]
        return body

    def _rest(self) -> bytes:
        while self._more_if_any():
            if len(self._come) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
        body = bytes(self._come)
        self._come.clear()
        return body

    def _more(self) -> None:
        if not self._more_if_any():
            raise ConnectionError("it was closed in the middle of an answer")

    def _more_if_any(self) -> bool:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it was not whole in time")
        self._connection.settimeout(left)
        piece = self._connection.recv(_PIECE)
        self._come += piece
        return bool(piece)


def _length(digits: bytes, base: int) -> int:
    """Return the length in these digits; int() alone would accept signs, spaces and underscores."""
    if not digits.isalnum():
        raise ValueError(f"not a length: {digits[:40]!r}")
    return int(digits, base)
