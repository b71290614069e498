"""The body of a watch, read by a thread of its own, so that whoever follows it can look around while it is silent."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread

import urllib3
from urllib3.exceptions import HTTPError

from webhook.state.watch.failure import Reason, WatchError

_PIECE = 256 * 1024
_WAITING = 64  # pieces that may wait to be read; then the server waits too
_LOOK_SECONDS = 0.2
_JOIN_SECONDS = 0.5


class PumpedStream:
    """A `Stream` over a response whose body comes as it likes. `let_go` is called once, when it is closed."""

    def __init__(self, response: urllib3.BaseHTTPResponse, let_go: Callable[[], None]) -> None:
        self._response = response
        self._let_go = let_go
        self._pieces: Queue[bytes | WatchError] = Queue(_WAITING)
        self._closed = Event()
        self._thread = Thread(target=self._pump, name="watch-stream", daemon=True)
        self._thread.start()

    def read(self, patience: float) -> bytes | None:
        """The next bytes, `b""` at the end, or None when nothing came for so many seconds.

        Raises:
            WatchError: the connection broke.
        """
        try:
            piece = self._pieces.get(timeout=patience)
        except Empty:
            return None
        if isinstance(piece, WatchError):
            raise piece
        return piece

    def close(self) -> None:
        """Break the connection and end the thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError, ValueError, RuntimeError):  # it has ended by itself
            self._response.shutdown()
        self._thread.join(_JOIN_SECONDS)
        self._let_go()

    def _pump(self) -> None:
        try:
            while piece := self._response.read1(_PIECE):
                self._put(piece)
            self._put(b"")
        except (HTTPError, OSError, ValueError) as error:  # ValueError: closed while reading
            self._put(WatchError(Reason.RESET, f"a watch broke: {error}"))

    def _put(self, piece: bytes | WatchError) -> None:
        while not self._closed.is_set():
            with suppress(Full):
                self._pieces.put(piece, timeout=_LOOK_SECONDS)
                return
