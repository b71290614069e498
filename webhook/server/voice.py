"""How a server speaks to those who run it: its log, and what it counts."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from webhook.server.reporting.lines import LineWriter
from webhook.server.reporting.logs import Logger, create_logger
from webhook.server.reporting.metrics import BuildInfo, ServerMetrics


@dataclass(frozen=True, slots=True)
class Telemetry:
    """How a server speaks to those who run it."""

    log: Logger
    metrics: ServerMetrics


@contextmanager
def start_telemetry(level: str) -> Iterator[Telemetry]:
    """A voice that logs to stderr, from `level` on; at the end every line is written."""
    line_writer = LineWriter(sys.stderr.buffer)
    try:
        yield Telemetry(create_logger(level, line_writer=line_writer), ServerMetrics(BuildInfo(_get_version())))
    finally:
        line_writer.flush()


def _get_version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
