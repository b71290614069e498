"""The body and the timeout of a request.

A body is read completely, up to a maximum size, and a bounded number of large ones at a time. The timeout is the one
that the API server sends in the query string.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from tallygate.webhook.server.settings.value_types import DurationError, parse_duration
from tallygate.webhook.server.web.http_errors import HttpError

Environ = dict[str, Any]
"""A WSGI environment (PEP 3333)."""

_MAX_SMALL_BYTES = 1 << 16
_MAX_LARGE_BODIES = 16
_WAIT_SHARE = 0.5


class BodyError(Exception):
    """The body cannot be accepted; `http_error` is the response."""

    def __init__(self, http_error: HttpError) -> None:
        self.http_error = http_error
        super().__init__(http_error.message)


class BodyReader:
    """A reader of bodies of at most `max_bytes` bytes.

    Memory is bounded in two ways, for bodies over 64 KiB. There are at most `max_large` at a time; and those that are
    decided at a time have `max_bytes` bytes together, since a decoded body may take thirty times its bytes. A body
    waits for both, for at most `timeout` seconds, and half of the time of its client: the other half is for another
    replica.
    """

    def __init__(self, max_bytes: int, timeout: float, max_large: int = _MAX_LARGE_BODIES) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._large_slots = threading.BoundedSemaphore(max_large)
        self._undecided_bytes = 0
        self._decided = threading.Condition()
        self._started_at: dict[object, float] = {}

    @contextmanager
    def open_body(self, environ: Environ, now: float) -> Iterator[bytes]:
        """Yield the body of a request for its decision; `now` is the monotonic time at which the read begins.

        Content-Length is trusted only to reject: nothing is read of a body whose Content-Length is too large.

        Raises:
            BodyError: if the body is too large (413), compressed (415) or shorter than its Content-Length (400), if the
                Content-Length is not a number (400), or if other large bodies take the room for too long (503).
        """
        body, is_large = self._read_tracked(environ, now)
        if not is_large:
            yield body
            return
        try:
            with self._reserve_bytes(len(body), self._compute_wait(environ)):
                yield body
        finally:
            self._large_slots.release()

    def list_reads(self) -> list[float]:
        """Return the monotonic times at which the current reads began."""
        return list(self._started_at.values())

    def _read_tracked(self, environ: Environ, now: float) -> tuple[bytes, bool]:
        """Return a body, and whether it occupies a slot that the caller must release."""
        key = object()
        self._started_at[key] = now
        try:
            length = self._parse_content_length(environ)
            if length is not None and length <= _MAX_SMALL_BYTES:
                return self._read(environ, length), False
            if not self._large_slots.acquire(timeout=self._compute_wait(environ)):
                raise _create_crowded_error()
            try:
                return self._read(environ, length), True
            except BaseException:
                self._large_slots.release()
                raise
        finally:
            del self._started_at[key]

    @contextmanager
    def _reserve_bytes(self, size: int, seconds: float) -> Iterator[None]:
        """Wait until the large bodies that are decided leave room for this one, and occupy it in the block."""
        with self._decided:
            if not self._decided.wait_for(lambda: self._undecided_bytes + size <= self._max_bytes, seconds):
                raise _create_crowded_error()
            self._undecided_bytes += size
        try:
            yield
        finally:
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
        body: bytes = environ["wsgi.input"].read(self._max_bytes + 1 if length is None else length)
        if length is not None and len(body) < length:
            raise BodyError(HttpError(400, "truncated", "the body ended before its Content-Length"))
        if len(body) > self._max_bytes:
            raise self._create_too_large_error()
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
