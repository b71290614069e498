"""The body of a watch, read by a thread of its own, so that whoever follows it can look around while it is silent."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread

import urllib3
from urllib3.exceptions import HTTPError

from webhook.state.watch.failure import ApiErrorReason, WatchError

_STREAM_CHUNK_BYTES = 256 * 1024
_MAX_QUEUED_CHUNKS = 64  # pieces that may wait to be read; then the server waits too
_CLOSE_POLL_SECONDS = 0.2
_JOIN_SECONDS = 0.5


class ThreadedWatchStream:
    """A `Stream` over a response whose body comes as it likes. `let_go` is called once, when it is closed."""

    def __init__(self, response: urllib3.BaseHTTPResponse, release: Callable[[], None]) -> None:
        self._response = response
        self._release = release
        self._chunks: Queue[bytes | WatchError] = Queue(_MAX_QUEUED_CHUNKS)
        self._closed = Event()
        self._thread = Thread(target=self._read_chunks, name="watch-stream", daemon=True)
        self._thread.start()

    def read(self, timeout: float) -> bytes | None:
        """The next bytes, `b""` at the end, or None when nothing came for so many seconds.

        Raises:
            WatchError: the connection broke.
        """
        try:
            chunk = self._chunks.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(chunk, WatchError):
            raise chunk
        return chunk

    def close(self) -> None:
        """Break the connection and end the thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError, ValueError, RuntimeError):  # it has ended by itself
            self._response.shutdown()
        self._thread.join(_JOIN_SECONDS)
        self._release()

    def _read_chunks(self) -> None:
        try:
            while chunk := self._response.read1(_STREAM_CHUNK_BYTES):
                self._put(chunk)
            self._put(b"")
        except (HTTPError, OSError, ValueError) as error:  # ValueError: closed while reading
            self._put(WatchError(ApiErrorReason.RESET, f"a watch broke: {error}"))

    def _put(self, chunk: bytes | WatchError) -> None:
        while not self._closed.is_set():
            with suppress(Full):
                self._chunks.put(chunk, timeout=_CLOSE_POLL_SECONDS)
                return
