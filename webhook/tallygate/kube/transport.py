"""Ports of a reflector (transport, watch stream and clock), and the split of a stream into bounded lines.

Chunks of a stream may end anywhere, also within a character.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol

from tallygate.kube.api_errors import ApiError, ApiErrorReason


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response of any status.

    `retry_after`: the wait in seconds that the server asks for. `date` and `etag`: the headers `Date` and `ETag`.
    """

    status: int
    body: bytes
    retry_after: float | None = None
    date: str = ""
    etag: str = ""

    @property
    def server_time(self) -> float | None:
        """The Unix time at which the server made the response, cut to the second; None if it is unknown."""
        try:
            return parsedate_to_datetime(self.date).timestamp()
        except (ValueError, TypeError):
            return None


class WatchStream(Protocol):
    """The body of a watch, chunk by chunk."""

    def read(self, timeout: float) -> bytes | None:
        """Return the next bytes, `b""` at the end, or None when no byte arrived for `timeout` seconds.

        Raises:
            ApiError: if the connection broke.
        """
        ...

    def close(self) -> None:
        """Close the stream; callers may do so twice."""
        ...


class Transport(Protocol):
    """A connection to the API server, with a timeout for every wait."""

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return one response of any status.

        Raises:
            ApiError: if no response arrives, or it is too large.
        """
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return the stream of a watch, or the response that refuses it.

        Raises:
            ApiError: if neither arrives.
        """
        ...


class Clock(Protocol):
    """A monotonic clock that can also wait."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or less when the informer stops."""
        ...


class LineSplitter:
    """A splitter of a stream into lines of at most `max_bytes` bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now, without their ends; skip empty lines.

        Raises:
            ApiError: if a line is longer than `max_bytes`.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._append(end)
            line = b"".join(self._parts)
            self._parts.clear()
            self._length = 0
            if line.strip():
                yield line
        self._append(rest)

    @property
    def has_partial_line(self) -> bool:
        """Whether the last line is incomplete so far."""
        return self._length > 0

    def _append(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._max_bytes:
            raise ApiError(ApiErrorReason.TOO_LARGE, f"an event of more than {self._max_bytes} bytes")
        if part:
            self._parts.append(part)
