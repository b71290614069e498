"""Bytes to lines, with a bound: chunks end anywhere, also within a character."""

from collections.abc import Iterator

from webhook.state.watch.failure import ApiErrorReason, WatchError


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
