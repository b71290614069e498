"""Request bodies: read whole, never more than allowed, and not too many large ones at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from webhook.server.web.failures import Failure

Environ = dict[str, Any]
"""A WSGI environment (PEP 3333)."""

_SMALL = 1 << 16
_LARGE_AT_A_TIME = 16


class BodyError(Exception):
    """The body cannot be taken; `failure` is the answer."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class BodyReader:
    """Reads bodies of at most `limit` bytes.

    Memory is bounded: bodies over 64 KiB wait for one of so many places, at most `patience` seconds.
    """

    def __init__(self, limit: int, patience: float, places: int = _LARGE_AT_A_TIME) -> None:
        self._limit = limit
        self._patience = patience
        self._places = threading.BoundedSemaphore(places)
        self._reading: dict[object, float] = {}

    def read(self, environ: Environ, now: float) -> bytes:
        """The body of a request, begun to be read at the monotonic time `now`.

        A length that is announced is believed only to refuse: nothing is read of a body that says it is too large.

        Raises:
            BodyError: too large (413), compressed (415), shorter than announced (400), or no place for it (503).
        """
        body, placed = self._read_at(environ, now)
        if placed:
            self._places.release()
        return body

    @contextmanager
    def held(self, environ: Environ, now: float) -> Iterator[bytes]:
        """Likewise, for a while: a large body keeps its place until then.

        Raises:
            BodyError: as `read`.
        """
        body, placed = self._read_at(environ, now)
        try:
            yield body
        finally:
            if placed:
                self._places.release()

    def oldest(self) -> float | None:
        """When the read that has lasted longest began; None when nothing is being read."""
        return min(list(self._reading.values()), default=None)

    def _read_at(self, environ: Environ, now: float) -> tuple[bytes, bool]:
        """A body, and whether it has taken a place, which is to be released."""
        this = object()
        self._reading[this] = now
        try:
            length = self._announced(environ)
            if length is not None and length <= _SMALL:
                return self._read(environ, length), False
            self._take_place()
            try:
                return self._read(environ, length), True
            except BaseException:
                self._places.release()
                raise
        finally:
            del self._reading[this]

    def _announced(self, environ: Environ) -> int | None:
        """The length that is announced; None when none is, and the body is chunked."""
        if environ.get("HTTP_CONTENT_ENCODING", "identity") not in ("identity", ""):
            raise BodyError(Failure(415, "encoding", "send the review as it is: no Content-Encoding is understood"))
        announced = environ.get("CONTENT_LENGTH")
        if announced:
            return self._length(announced)
        # If the server does not mark the end of such a body (`wsgi.input_terminated`), it is empty (PEP 3333).
        return None if environ.get("wsgi.input_terminated") else 0

    def _read(self, environ: Environ, length: int | None) -> bytes:
        body: bytes = environ["wsgi.input"].read(self._limit + 1 if length is None else length)
        if length is not None and len(body) < length:
            raise BodyError(Failure(400, "truncated", "the body ended before its Content-Length"))
        if len(body) > self._limit:
            raise self._too_large()
        return body

    def _length(self, announced: str) -> int:
        if not (announced.isascii() and announced.isdigit()):
            raise BodyError(Failure(400, "length", "Content-Length is not a number"))
        if len(announced) > len(str(self._limit)) or int(announced) > self._limit:
            raise self._too_large()
        return int(announced)

    def _take_place(self) -> None:
        if not self._places.acquire(timeout=self._patience):
            raise BodyError(Failure(503, "crowded", "too many large bodies arrive at a time"))

    def _too_large(self) -> BodyError:
        message = f"the body is larger than {self._limit} bytes, the most that is read"
        return BodyError(Failure(413, "too-large", message))
