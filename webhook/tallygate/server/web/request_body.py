"""The body and the timeout of a request.

A body is read completely, up to a maximum size, and a bounded number of large ones at a time. The timeout is the one
that the API server sends in the query string.
"""

import threading
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qs

from tallygate.server.settings.value_types import DurationError, parse_duration
from tallygate.server.web.http_errors import HttpError

Environ = dict[str, Any]
"""A WSGI environment (PEP 3333)."""

_MAX_SMALL_BYTES = 1 << 16
_MAX_LARGE_BODIES = 16
_LARGEST_AT_A_TIME = 4  # bodies of the largest size that are read at a time
_MAX_WAITING = 64
_ADDRESS_SHARE = 0.5
_MAX_WAITING_OF_ADDRESS = 48
_PIECE_BYTES = 1 << 18
_BYTES_PER_OBJECT = 32  # of the largest body; an object of an API server takes more, and decoded up to 250
_WAIT_SHARE = 0.5


class BodyError(Exception):
    """The body cannot be accepted; `http_error` is the response."""

    def __init__(self, http_error: HttpError) -> None:
        self.http_error = http_error
        super().__init__(http_error.message)


class _Places:
    """The places of large bodies: a number of them, and a number of bytes. One address has at most half of the bytes.

    A body waits in a thread, so few of them may: the others get no place at once.
    """

    def __init__(self, max_bodies: int, max_bytes: int) -> None:
        self._max_bodies = max_bodies
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._sizes: Counter[str] = Counter()  # in bytes, by address
        self._body_count = 0
        self._waiting: Counter[str] = Counter()  # by address

    def acquire(self, address: str, size: int, seconds: float) -> bool:
        """Occupy a place for a body of an address, within `seconds`; return whether there is one."""
        with self._changed:
            if (
                self._waiting.total() >= _MAX_WAITING or self._waiting[address] >= _MAX_WAITING_OF_ADDRESS
            ) and not self._has_room(address, size):
                return False
            self._waiting[address] += 1
            try:
                has_room = self._changed.wait_for(lambda: self._has_room(address, size), seconds)
            finally:
                self._waiting[address] -= 1
                self._waiting = +self._waiting
            if has_room:
                self._body_count += 1
                self._sizes[address] += size
            return has_room

    def release(self, address: str, size: int) -> None:
        """Free the place of a body."""
        with self._changed:
            self._body_count -= 1
            self._sizes[address] -= size
            self._sizes = +self._sizes
            self._changed.notify_all()

    def _has_room(self, address: str, size: int) -> bool:
        return (
            self._body_count < self._max_bodies
            and self._sizes.total() + size <= self._max_bytes
            and self._sizes[address] + size <= self._max_bytes * _ADDRESS_SHARE
        )


class BodyReader:
    """A reader of bodies of at most `max_bytes` bytes.

    Memory is bounded in two ways, for bodies over 64 KiB. Those that are read at a time are at most `max_large`, and
    have four times `max_bytes` bytes together, half of it for one address. Those that are decided at a time have
    `max_bytes` bytes together, and each has few enough objects, so that a decoded body takes at most thirty times its
    bytes: `{}` would take more. A body waits for both, for at most
    `timeout` seconds, and half of the time of its client: the other half is for another replica.
    """

    def __init__(self, max_bytes: int, timeout: float, max_large: int = _MAX_LARGE_BODIES) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._places = _Places(max_large, _LARGEST_AT_A_TIME * max_bytes)
        self._undecided_bytes = 0
        self._decided = threading.Condition()
        self._started_at: dict[object, float] = {}

    def read(self, environ: Environ, now: float) -> tuple[bytes, Callable[[], None] | None]:
        """Return the body of a request, and the function that frees its room after the decision, if it has any.

        `now` is the monotonic time at which the read begins. Content-Length is trusted only to reject: nothing is read
        of a body whose Content-Length is too large.

        Raises:
            BodyError: if the body is too large, or has too many objects (413), if it is compressed (415) or shorter
                than its Content-Length (400), if the Content-Length is not a number (400), or if other large bodies
                take the room for too long (503).
        """
        body, free_place = self._read_tracked(environ, now)
        if free_place is None:
            return body, None
        try:
            free_bytes = self._reserve_bytes(len(body), self._compute_wait(environ))
        except BaseException:
            free_place()
            raise

        def free() -> None:
            free_bytes()
            free_place()

        return body, free

    def list_reads(self) -> list[float]:
        """Return the monotonic times at which the current reads began."""
        return list(self._started_at.values())

    def _read_tracked(self, environ: Environ, now: float) -> tuple[bytes, Callable[[], None] | None]:
        """Return a body, and the function that frees its place; None if it has none."""
        key = object()
        self._started_at[key] = now
        try:
            length = self._parse_content_length(environ)
            if length is not None and length <= _MAX_SMALL_BYTES:
                return self._read(environ, length), None
            address, size = environ.get("REMOTE_ADDR", ""), self._max_bytes if length is None else length
            if not self._places.acquire(address, size, self._compute_wait(environ)):
                raise _create_crowded_error()
            free = partial(self._places.release, address, size)
            try:
                return self._read(environ, length), free
            except BaseException:
                free()
                raise
        finally:
            del self._started_at[key]

    def _reserve_bytes(self, size: int, seconds: float) -> Callable[[], None]:
        """Wait until the large bodies that are decided leave room for this one; return the function that frees it."""
        with self._decided:
            if not self._decided.wait_for(lambda: self._undecided_bytes + size <= self._max_bytes, seconds):
                raise _create_crowded_error()
            self._undecided_bytes += size
        return partial(self._free_bytes, size)

    def _free_bytes(self, size: int) -> None:
        with self._decided:
            self._undecided_bytes -= size
            self._decided.notify_all()

    def _compute_wait(self, environ: Environ) -> float:
        """Return the seconds for which a large body waits for others."""
        client_timeout = parse_timeout(environ.get("QUERY_STRING", ""))
        return self._timeout if client_timeout is None else min(self._timeout, client_timeout * _WAIT_SHARE)

    def _parse_content_length(self, environ: Environ) -> int | None:
        """Return the Content-Length, or None for a chunked body without one."""
        if environ.get("HTTP_CONTENT_ENCODING", "identity") not in ("identity", ""):
            raise BodyError(HttpError(415, "encoding", "send the review as it is: no Content-Encoding is understood"))
        header = environ.get("CONTENT_LENGTH")
        if header:
            return self._parse_length(header)
        # If the server does not mark the end of such a body (`wsgi.input_terminated`), it is empty (PEP 3333).
        return None if environ.get("wsgi.input_terminated") else 0

    def _read(self, environ: Environ, length: int | None) -> bytes:
        body = _read_pieces(environ["wsgi.input"].read, self._max_bytes + 1 if length is None else length)
        if length is not None and len(body) < length:
            raise BodyError(HttpError(400, "truncated", "the body ended before its Content-Length"))
        if len(body) > self._max_bytes:
            raise self._create_too_large_error()
        max_objects = self._max_bytes // _BYTES_PER_OBJECT
        if len(body) > _MAX_SMALL_BYTES and body.count(b"{") > max_objects:
            raise BodyError(HttpError(413, "too-many-objects", f"the body has more than {max_objects} JSON objects"))
        return body

    def _parse_length(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise BodyError(HttpError(400, "length", "Content-Length is not a number"))
        if len(text) > len(str(self._max_bytes)) or int(text) > self._max_bytes:
            raise self._create_too_large_error()
        return int(text)

    def _create_too_large_error(self) -> BodyError:
        message = f"the body is larger than {self._max_bytes} bytes, the most that is read"
        return BodyError(HttpError(413, "too-large", message))


def _read_pieces(read: Callable[[int], bytes], size: int) -> bytes:
    """Return at most `size` bytes, read in pieces: granian's buffer takes twice what is read at a time, and a copy."""
    pieces: list[bytes] = []
    while size > 0:
        piece = read(min(size, _PIECE_BYTES))
        pieces.append(piece)
        size = size - len(piece) if piece else 0
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _create_crowded_error() -> BodyError:
    return BodyError(HttpError(503, "crowded", "too many large bodies arrive at a time", is_transient=True))


_MAX_QUERY_LENGTH = 256


@lru_cache(maxsize=256)
def parse_timeout(query: str) -> float | None:
    """Return the `timeout` of a query string in seconds (`timeout=5s`), or None if it is missing or invalid."""
    if len(query) > _MAX_QUERY_LENGTH:
        return None
    for text in parse_qs(query).get("timeout", []):
        try:
            return parse_duration(text) or None
        except DurationError:
            return None
    return None
