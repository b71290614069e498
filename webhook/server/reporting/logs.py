"""Logs: one JSON object a line, on standard error.

Never a whole object, never a body, never a token: what a line may hold is named by whoever writes it.
"""

import logging
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import structlog

from webhook.server.reporting.lines import LineWriter

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
