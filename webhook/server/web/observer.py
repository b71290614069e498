"""What is told of an answer: one log line and a few counters."""

from typing import Any

from webhook.gate.decisions import DecisionRecord
from webhook.server.reporting.logs import Logger
from webhook.server.reporting.metrics import Metrics
from webhook.server.web.failures import Failure

_LONGEST = 256
_LONGEST_MESSAGE = 1024
_MOST = 16
_WHEN_ANY = ("dry_run", "warnings", "audits", "unknown", "exceeded")


class Observer:
    """Logs and counts answers. It decides nothing and must not fail."""

    def __init__(self, logger: Logger, metrics: Metrics) -> None:
        self._log = logger
        self._metrics = metrics

    def answered(self, record: DecisionRecord, seconds: float) -> None:
        """A review was decided, in so many seconds from its arrival."""
        self._metrics.decided(record.phase, record.operation, record.kind, record.verdict, seconds)
        self._metrics.refusals.answered(record)
        line: dict[str, Any] = {
            "phase": record.phase.value,
            "uid": record.uid[:_LONGEST],
            "user": record.user[:_LONGEST],
            "operation": record.operation[:_LONGEST],
            "object": _object(record),
            "verdict": record.verdict,
        }
        if record.codes:
            line["codes"] = codes = tuple(dict.fromkeys(record.codes))
            for code in codes:
                self._metrics.problem(code)
        for name in _WHEN_ANY:
            if found := getattr(record, name):
                line[name] = found if found is True else tuple(dict.fromkeys(found))[:_MOST]
        self._log.info("decided", **line, ms=round(seconds * 1000, 3))

    def failed(self, failure: Failure, error: BaseException | None = None) -> None:
        """A request got no decision; `error` is what was raised, when that is not the sender's fault."""
        self._metrics.failed(failure.why)
        if error is None:
            self._log.warning("refused", why=failure.why, code=failure.code, message=failure.message[:_LONGEST_MESSAGE])
        else:
            message = str(error)[:_LONGEST_MESSAGE]
            self._log.error("undecided", why=failure.why, code=failure.code, message=message, exc_info=error)


def _object(record: DecisionRecord) -> str:
    """`Kind namespace/name`, each cut where it is longer than any that Kubernetes allows."""
    name = record.name[:_LONGEST]
    if record.namespace:
        name = f"{record.namespace[:_LONGEST]}/{name}"
    return f"{record.kind[:_LONGEST]} {name}"
