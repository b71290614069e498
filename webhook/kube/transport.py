"""What following a resource needs from outside: somebody who asks the API server, a clock, and chance.

Bytes to lines, with a bound: chunks end anywhere, also within a character.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.kube.api_errors import ApiErrorReason, WatchError


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer: status, body, and how many seconds the server asks to wait (`Retry-After`), if it does."""

    status: int
    body: bytes
    retry_after: float | None = None


class WatchStream(Protocol):
    """The body of a watch, as it comes."""

    def read(self, timeout: float) -> bytes | None:
        """The next bytes, `b""` at the end, or None when nothing came for `patience` seconds.

        Raises:
            WatchError: the connection broke.
        """
        ...

    def close(self) -> None:
        """Let go of it; may be called twice."""
        ...


class Transport(Protocol):
    """Asks the API server, with an end to every wait."""

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """One answer, whatever its status.

        Raises:
            WatchError: there was none, or it is too large.
        """
        ...

    def open(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """The stream of a watch, or the answer that refuses it.

        Raises:
            WatchError: there was neither.
        """
        ...


class Clock(Protocol):
    """Time that only runs forward, and waiting."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, or less when it is time to stop."""
        ...


class LineSplitter:
    """Cuts a stream into lines of at most `most` bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are whole now, without their ends; empty ones are passed over.

        Raises:
            WatchError: a line is longer than allowed.
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
        """Whether the stream would be cut short if it ended here."""
        return self._length > 0

    def _append(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._max_bytes:
            raise WatchError(ApiErrorReason.TOO_LARGE, f"an event of more than {self._max_bytes} bytes")
        if part:
            self._parts.append(part)
