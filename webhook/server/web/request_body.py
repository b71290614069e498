"""Request bodies: read whole, never more than allowed, and not too many large ones at a time.

How long the API server waits for an answer, as it says itself.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from webhook.server.settings.value_types import DurationError, parse_duration
from webhook.server.web.http_errors import HttpError

Environ = dict[str, Any]
"""A WSGI environment (PEP 3333)."""

_MAX_SMALL_BYTES = 1 << 16
_MAX_LARGE_BODIES = 16


class BodyError(Exception):
    """The body cannot be taken; `failure` is the answer."""

    def __init__(self, http_error: HttpError) -> None:
        self.http_error = http_error
        super().__init__(http_error.message)


class BodyReader:
    """Reads bodies of at most `limit` bytes.

    Memory is bounded: bodies over 64 KiB wait for one of so many places, at most `patience` seconds.
    """

    def __init__(self, max_bytes: int, timeout: float, max_large: int = _MAX_LARGE_BODIES) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._large_slots = threading.BoundedSemaphore(max_large)
        self._started_at: dict[object, float] = {}

    def read(self, environ: Environ, now: float) -> bytes:
        """The body of a request, begun to be read at the monotonic time `now`.

        A length that is announced is believed only to refuse: nothing is read of a body that says it is too large.

        Raises:
            BodyError: too large (413), compressed (415), shorter than announced (400), or no place for it (503).
        """
        body, has_slot = self._read_tracked(environ, now)
        if has_slot:
            self._large_slots.release()
        return body

    @contextmanager
    def open_body(self, environ: Environ, now: float) -> Iterator[bytes]:
        """Likewise, for a while: a large body keeps its place until then.

        Raises:
            BodyError: as `read`.
        """
        body, has_slot = self._read_tracked(environ, now)
        try:
            yield body
        finally:
            if has_slot:
                self._large_slots.release()

    def find_oldest_read(self) -> float | None:
        """When the read that has lasted longest began; None when nothing is being read."""
        return min(list(self._started_at.values()), default=None)

    def _read_tracked(self, environ: Environ, now: float) -> tuple[bytes, bool]:
        """A body, and whether it has taken a place, which is to be released."""
        key = object()
        self._started_at[key] = now
        try:
            length = self._parse_content_length(environ)
            if length is not None and length <= _MAX_SMALL_BYTES:
                return self._read(environ, length), False
            self._acquire_slot()
            try:
                return self._read(environ, length), True
            except BaseException:
                self._large_slots.release()
                raise
        finally:
            del self._started_at[key]

    def _parse_content_length(self, environ: Environ) -> int | None:
        """The length that is announced; None when none is, and the body is chunked."""
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

    def _acquire_slot(self) -> None:
        if not self._large_slots.acquire(timeout=self._timeout):
            raise BodyError(HttpError(503, "crowded", "too many large bodies arrive at a time"))

    def _create_too_large_error(self) -> BodyError:
        message = f"the body is larger than {self._max_bytes} bytes, the most that is read"
        return BodyError(HttpError(413, "too-large", message))


_MAX_QUERY_LENGTH = 256


@lru_cache(maxsize=256)
def parse_timeout(query: str) -> float | None:
    """The `timeout` of a query string in seconds (`timeout=5s`), or None when there is none that can be read."""
    if len(query) > _MAX_QUERY_LENGTH:
        return None
    for text in parse_qs(query).get("timeout", []):
        try:
            return parse_duration(text) or None
        except DurationError:
            return None
    return None
