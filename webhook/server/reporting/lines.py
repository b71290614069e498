"""Log lines on their way out: gathered for a moment and written together.

A write for each line would cost a request a system call and, worse, the interpreter's lock. Lines that tell of trouble
are written at once, with all before them. What is lost at a sudden death is what came in the last moment.
"""

import atexit
import threading
from collections import deque
from contextlib import suppress
from typing import BinaryIO

_FLUSH_INTERVAL_SECONDS = 0.1
_MAX_PENDING = 10_000


class LineWriter:
    """Takes lines from any thread, and writes them in order. structlog calls the method that is the line's level."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending: deque[bytes] = deque()
        self._has_pending = threading.Event()
        self._write_lock = threading.Lock()
        threading.Thread(target=self._run, name="log", daemon=True).start()
        atexit.register(self.flush)

    def info(self, line: bytes) -> None:
        """Write a line soon."""
        self._pending.append(line)
        if not self._has_pending.is_set():
            self._has_pending.set()
        if len(self._pending) > _MAX_PENDING:
            self.flush()  # nobody reads as fast as we write: wait, rather than grow

    debug = info

    def error(self, line: bytes) -> None:
        """Write a line now."""
        self._pending.append(line)
        self.flush()

    warning = critical = error

    def flush(self) -> None:
        """Write what is pending."""
        with self._write_lock:
            lines = [self._pending.popleft() for _ in range(len(self._pending))]
            if lines:
                self._write(b"\n".join([*lines, b""]))

    def _write(self, content: bytes) -> None:
        with suppress(OSError, ValueError):  # nobody listens any more, and there is nobody to tell: deciding goes on
            self._file.write(content)
            self._file.flush()

    def _run(self) -> None:
        timer = threading.Event()
        while self._has_pending.wait():
            timer.wait(_FLUSH_INTERVAL_SECONDS)
            self._has_pending.clear()
            self.flush()
