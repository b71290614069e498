"""The log line and the counters of one response."""

from logging import DEBUG
from typing import Any

from tallygate.gate.decisions import DecisionRecord, UndecidedError
from tallygate.server.telemetry.json_log import Logger
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate.server.web.http_errors import HttpError

_MAX_LENGTH = 256
_MAX_MESSAGE_LENGTH = 1024
_MAX_ITEMS = 16
_OPTIONAL_FIELDS = ("dry_run", "policies", "warnings", "audits", "unknown", "exceeded")


class RequestLog:
    """A log and counter of responses. It decides nothing and must not fail."""

    def __init__(self, logger: Logger, metrics: ServerMetrics) -> None:
        self._log = logger
        self._metrics = metrics

    def log_decision(self, record: DecisionRecord, seconds: float) -> None:
        """Log and count a decision that was made `seconds` after the arrival of its review."""
        self._metrics.count_decision(record.phase, record.operation, record.kind, record.verdict, seconds)
        self._metrics.rejections.count_decision(record)
        is_plain = _is_plain(record)
        if is_plain and not self._log.is_enabled_for(DEBUG):
            return  # most of all reviews
        line: dict[str, Any] = {
            "phase": record.phase.value,
            "uid": record.uid[:_MAX_LENGTH],
            "user": record.user[:_MAX_LENGTH],
            "operation": record.operation[:_MAX_LENGTH],
            "object": _format_object(record),
            "verdict": record.verdict,
        }
        if record.codes:
            line["codes"] = codes = tuple(dict.fromkeys(record.codes))
            for code in codes:
                self._metrics.count_problem(code)
        for name in _OPTIONAL_FIELDS:
            if value := getattr(record, name):
                line[name] = value if value is True else tuple(dict.fromkeys(value))[:_MAX_ITEMS]
        if record.message:
            line["message"] = record.message[:_MAX_MESSAGE_LENGTH]
        log = self._log.debug if is_plain else self._log.info
        log("decided", **line, ms=round(seconds * 1000, 3))

    def log_error(self, http_error: HttpError, error: BaseException | None = None) -> None:
        """Log and count a request without a decision; `error` is the exception, unless the sender caused the error."""
        self._metrics.count_failure(http_error.reason)
        if isinstance(error, UndecidedError):
            self._metrics.rejections.count_obstacles(error.obstacles)
        if error is None:
            self._log.warning(
                "request-rejected",
                reason=http_error.reason,
                code=http_error.code,
                message=http_error.message[:_MAX_MESSAGE_LENGTH],
            )
        else:
            message = str(error)[:_MAX_MESSAGE_LENGTH]
            self._log.error(
                "undecided", reason=http_error.reason, code=http_error.code, message=message, exc_info=error
            )


def _is_plain(record: DecisionRecord) -> bool:
    """Return whether a request was allowed, and nothing is to be reported of it."""
    return record.verdict == "allow" and not (record.warnings or record.audits or record.unknown or record.exceeded)


def _format_object(record: DecisionRecord) -> str:
    """Return `Kind namespace/name`, each truncated where it is longer than any that Kubernetes allows."""
    name = record.name[:_MAX_LENGTH]
    if record.namespace:
        name = f"{record.namespace[:_MAX_LENGTH]}/{name}"
    return f"{record.kind[:_MAX_LENGTH]} {name}"
