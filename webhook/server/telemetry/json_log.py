"""Log lines on their way out: gathered for a moment and written together.

A write for each line would cost a request a system call and, worse, the interpreter's lock. Lines that tell of trouble
are written at once, with all before them. What is lost at a sudden death is what came in the last moment.

Logs: one JSON object a line, on standard error.

Never a whole object, never a body, never a token: what a line may hold is named by whoever writes it.
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


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Logger = structlog.typing.FilteringBoundLogger


def create_logger(
    level: str, *, line_writer: LineWriter | None = None, clock: Callable[[], int] = time.time_ns
) -> structlog.typing.FilteringBoundLogger:
    """A logger that writes lines of at least this level (`debug`, `info`, `warning`, `error`).

    `lines` writes to standard error unless given; `clock` tells the time in nanoseconds since 1970.
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


class _LibraryLogHandler(logging.Handler):
    """Hands what libraries log to our logger."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log it, with the library's name."""
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        self._logger.log(min(record.levelno, logging.CRITICAL), record.getMessage(), library=record.name, **extra)


def forward_library_logs(logger: Logger) -> None:
    """From now on write the warnings and errors of libraries (granian, waitress) as lines of this logger, too."""
    logging.basicConfig(level=logging.WARNING, handlers=[_LibraryLogHandler(logger)], force=True)


@lru_cache(maxsize=4)
def _format_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _format_traceback(logger: Any, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if "exc_info" not in event:
        return event
    return structlog.processors.format_exc_info(logger, level, event)
