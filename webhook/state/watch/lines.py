"""Bytes to lines, with a bound: chunks end anywhere, also within a character."""

from collections.abc import Iterator

from webhook.state.watch.failure import Reason, WatchError


class Lines:
    """Cuts a stream into lines of at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are whole now, without their ends; empty ones are passed over.

        Raises:
            WatchError: a line is longer than allowed.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            line = b"".join(self._begun)
            self._begun.clear()
            self._length = 0
            if line.strip():
                yield line
        self._keep(rest)

    @property
    def is_within_a_line(self) -> bool:
        """Whether the stream would be cut short if it ended here."""
        return self._length > 0

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._most:
            raise WatchError(Reason.TOO_LARGE, f"an event of more than {self._most} bytes")
        if part:
            self._begun.append(part)
