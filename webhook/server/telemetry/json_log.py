"""The log of the server: one JSON object a line, on standard error.

Callers name every field of a line. No line has a whole object, a body or a token.

Lines are collected for up to 0.1 s and written together: a write for each line would cost each request a system call
and, worse, the interpreter's lock. Lines at level warning or above are written at once, with all lines before them. If
the process is killed, the lines of the last 0.1 s are lost.
"""

import atexit
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec
import structlog

_FLUSH_INTERVAL_SECONDS = 0.1
_MAX_PENDING = 10_000


class LineWriter:
    """A thread-safe writer that keeps the order of lines. structlog calls the method named like the line's level."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending: deque[bytes] = deque()
        self._has_pending = threading.Event()
        self._write_lock = threading.Lock()
        threading.Thread(target=self._run, name="log", daemon=True).start()
        atexit.register(self.flush)

    def info(self, line: bytes) -> None:
        """Queue a line, which is written within 0.1 s."""
        self._pending.append(line)
        if not self._has_pending.is_set():
            self._has_pending.set()
        if len(self._pending) > _MAX_PENDING:
            self.flush()  # the reader is slower than the server: wait rather than use more memory

    debug = info

    def error(self, line: bytes) -> None:
        """Write a line at once, after all pending ones."""
        self._pending.append(line)
        self.flush()

    warning = critical = error

    def flush(self) -> None:
        """Write all pending lines."""
        with self._write_lock:
            lines = [self._pending.popleft() for _ in range(len(self._pending))]
            if lines:
                self._write(b"\n".join([*lines, b""]))

    def _write(self, content: bytes) -> None:
        with suppress(OSError, ValueError):  # the reader has closed the pipe: decisions go on without a log
            self._file.write(content)
            self._file.flush()

    def _run(self) -> None:
        timer = threading.Event()
        while self._has_pending.wait():
            timer.wait(_FLUSH_INTERVAL_SECONDS)
            self._has_pending.clear()
            self.flush()


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Logger = structlog.typing.FilteringBoundLogger


def create_logger(
    level: str, *, line_writer: LineWriter | None = None, clock: Callable[[], int] = time.time_ns
) -> structlog.typing.FilteringBoundLogger:
    """Return a logger that writes lines of at least this level (`debug`, `info`, `warning`, `error`).

    Without a `line_writer` it writes to standard error; `clock` returns nanoseconds since 1970.
    """
    encode = msgspec.json.Encoder(enc_hook=str).encode

    def render(_: Any, level: str, event: structlog.typing.EventDict) -> bytes:
        now = clock()
        line = {
            "time": f"{_format_second(now // 1_000_000_000)}.{now // 1_000_000 % 1000:03d}Z",
            "level": level,
            "event": event.pop("event"),
            **event,
        }
        return encode(line)

    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        line_writer or LineWriter(sys.stderr.buffer),
        processors=[_format_traceback, render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return logger.bind()


class FailureLog:
    """The failure of one part, "" while it works. A new failure is logged, and so is the end of the last one.

    With `each_change` false, a failure that follows another one is not logged: its text may name another object.
    """

    def __init__(
        self,
        log_failure: Callable[..., object],
        log_end: Callable[[], object] = lambda: None,
        *,
        each_change: bool = True,
    ) -> None:
        self._log_failure, self._log_end, self._each_change = log_failure, log_end, each_change
        self._lock = threading.Lock()
        self.failure = ""

    def update(self, failure: str) -> None:
        """Store the failure, "" after a success; log a change, with the failure as `message`."""
        with self._lock:
            previous, self.failure = self.failure, failure
        if failure and failure != previous and (self._each_change or not previous):
            self._log_failure(message=failure)
        elif previous and not failure:
            self._log_end()


class _LibraryLogHandler(logging.Handler):
    """A handler that passes the log records of libraries to a `Logger`."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record with the library's name."""
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        self._logger.log(min(record.levelno, logging.CRITICAL), record.getMessage(), library=record.name, **extra)


def forward_library_logs(logger: Logger) -> None:
    """Forward the warnings and errors of libraries (granian, waitress) to this logger from now on."""
    logging.basicConfig(level=logging.WARNING, handlers=[_LibraryLogHandler(logger)], force=True)


@lru_cache(maxsize=4)
def _format_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _format_traceback(logger: Any, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if "exc_info" not in event:
        return event
    return structlog.processors.format_exc_info(logger, level, event)
