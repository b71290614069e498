"""The log of the server: one JSON object a line, on standard error.

Callers name every field of a line. No line has a whole object, a body or a token.

Only the thread of a `LineWriter` writes, so that no decision waits for the reader of the log. It collects lines for up
to 0.1 s and writes them together: a write for each line would cost each request a system call and, worse, the
interpreter's lock. It writes lines at level warning or above at once, with all lines before them. If the process is
killed, the lines that are not written yet are lost.

A reader that is too slow, or reads nothing, costs lines: what exceeds 4 MiB is dropped and counted, and a line says how
many once the reader goes on.
"""

import atexit
import io
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import structlog

_COLLECT_SECONDS = 0.1
_RETRY_SECONDS = 0.1  # after a write to a non-blocking file that took nothing
_FLUSH_SECONDS = 1.0
_MAX_PENDING_BYTES = 4 << 20
_RESERVE_BYTES = 1 << 20  # in addition, for lines at level warning or above
_STANDARD_ERROR = 2


class LogFile(Protocol):
    """A file without a buffer of its own, as `io.FileIO`."""

    def write(self, content: memoryview | bytes, /) -> int | None:
        """Write a part of the content, and return its length; None if a non-blocking file takes nothing now."""
        ...


def open_standard_error() -> LogFile:
    """Return the standard error of this process without a buffer, whose lock a blocked write would keep."""
    return io.FileIO(_STANDARD_ERROR, "wb", closefd=False)


class LineWriter:
    """A thread-safe writer that keeps the order of lines. structlog calls the method named like the line's level.

    Args:
        file: where lines are written.
        count_dropped: called with the number of lines that are dropped.
        clock: returns nanoseconds since 1970.
    """

    def __init__(
        self,
        file: LogFile,
        count_dropped: Callable[[int], object] = lambda _: None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._file = file
        self._count_dropped = count_dropped
        self._clock = clock
        self._changed = threading.Condition()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._dropped = 0  # since the last line that reports it
        self._is_urgent = False
        self._is_writing = False
        threading.Thread(target=self._run, name="log", daemon=True).start()
        atexit.register(self.flush)

    def info(self, line: bytes) -> None:
        """Queue a line, which is written within 0.1 s."""
        self._append(line, _MAX_PENDING_BYTES, is_urgent=False)

    debug = info

    def error(self, line: bytes) -> None:
        """Queue a line, which is written at once, after all pending ones."""
        self._append(line, _MAX_PENDING_BYTES + _RESERVE_BYTES, is_urgent=True)

    warning = critical = error

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until all lines are written, at most for `seconds`; return whether they are."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not (self._pending or self._is_writing), seconds)

    def _append(self, line: bytes, limit: int, *, is_urgent: bool) -> None:
        with self._changed:
            if self._pending_bytes + len(line) > limit:
                self._drop(1)
                return
            self._pending.append(line)
            self._pending_bytes += len(line)
            if len(self._pending) == 1 or (is_urgent and not self._is_urgent):
                self._is_urgent |= is_urgent
                self._changed.notify_all()

    def _drop(self, count: int) -> None:
        self._dropped += count
        self._count_dropped(count)

    def _run(self) -> None:
        while True:
            lines, dropped = self._take_lines()
            note = [self._render_dropped(dropped)] if dropped else []
            is_written = self._write(b"\n".join([*lines, *note, b""]))
            with self._changed:
                self._is_writing = False
                if not is_written:
                    self._drop(len(lines))
                    self._dropped += dropped
                self._changed.notify_all()

    def _take_lines(self) -> tuple[list[bytes], int]:
        """Wait for lines; return them with the number of lines that were dropped after them."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending)
            self._changed.wait_for(lambda: self._is_urgent, _COLLECT_SECONDS)
            lines, self._pending, self._pending_bytes = self._pending, [], 0
            dropped, self._dropped = self._dropped, 0
            self._is_urgent, self._is_writing = False, True
            return lines, dropped

    def _write(self, content: bytes) -> bool:
        """Write all the content; return False if the reader has closed the pipe: decisions go on without a log."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._write_part(rest) :]
        except (OSError, ValueError):
            return False
        return True

    def _write_part(self, content: memoryview) -> int:
        length = self._file.write(content)
        if not length:
            threading.Event().wait(_RETRY_SECONDS)
        return length or 0

    def _render_dropped(self, number: int) -> bytes:
        return _render_line(self._clock(), "warning", "log-lines-dropped", {"number": number})


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Logger = structlog.typing.FilteringBoundLogger


def create_logger(
    level: str, *, line_writer: LineWriter | None = None, clock: Callable[[], int] = time.time_ns
) -> structlog.typing.FilteringBoundLogger:
    """Return a logger that writes lines of at least this level (`debug`, `info`, `warning`, `error`).

    Without a `line_writer` it writes to standard error; `clock` returns nanoseconds since 1970.
    """

    def render(_: Any, level: str, event: structlog.typing.EventDict) -> bytes:
        return _render_line(clock(), level, event.pop("event"), event)

    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        line_writer or LineWriter(open_standard_error()),
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
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        self._logger.log(min(record.levelno, logging.CRITICAL), record.getMessage(), library=record.name, **extra)


def forward_library_logs(logger: Logger) -> None:
    """Forward the warnings and errors of libraries (granian, waitress) to this logger from now on."""
    logging.basicConfig(level=logging.WARNING, handlers=[_LibraryLogHandler(logger)], force=True)


_encode = msgspec.json.Encoder(enc_hook=str).encode


def _render_line(nanoseconds: int, level: str, event: str, fields: Mapping[str, Any]) -> bytes:
    """Return a line in JSON, without its end, of a time in nanoseconds since 1970."""
    time_text = f"{_format_second(nanoseconds // 1_000_000_000)}.{nanoseconds // 1_000_000 % 1000:03d}Z"
    return _encode({"time": time_text, "level": level, "event": event, **fields})


@lru_cache(maxsize=4)
def _format_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _format_traceback(logger: Any, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if "exc_info" not in event:
        return event
    return structlog.processors.format_exc_info(logger, level, event)
