"""How a server speaks to those who run it: its log, and what it counts."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from webhook.server.reporting.lines import Lines
from webhook.server.reporting.logs import Logger, new_logger
from webhook.server.reporting.metrics import Build, Metrics


@dataclass(frozen=True, slots=True)
class Voice:
    """How a server speaks to those who run it."""

    log: Logger
    metrics: Metrics


@contextmanager
def speaking(level: str) -> Iterator[Voice]:
    """A voice that logs to stderr, from `level` on; at the end every line is written."""
    lines = Lines(sys.stderr.buffer)
    try:
        yield Voice(new_logger(level, lines=lines), Metrics(Build(_version())))
    finally:
        lines.flush()


def _version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
