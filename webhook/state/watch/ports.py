"""What following a resource needs from outside: somebody who asks the API server, a clock, and chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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
