"""What is told of an answer: one log line and a few counters."""

from webhook.admission.change import Phase
from webhook.server.failures import Failure
from webhook.server.logs import Logger
from webhook.server.metrics import Metrics
from webhook.server.ports import Record


class Observer:
    """Logs and counts answers. It decides nothing and must not fail."""

    def __init__(self, logger: Logger, metrics: Metrics) -> None:
        self._log = logger
        self._metrics = metrics

    def answered(self, phase: Phase, record: Record, seconds: float) -> None:
        """A review was decided, in so many seconds from its arrival."""
        self._metrics.decided(phase, record.operation, record.kind, record.verdict, seconds)
        for code in record.codes:
            self._metrics.problem(code)
        self._log.info(
            "decided",
            phase=phase.value,
            uid=record.uid,
            user=record.user,
            operation=record.operation,
            object=f"{record.kind} {record.namespace}/{record.name}"
            if record.namespace
            else f"{record.kind} {record.name}",
            verdict=record.verdict,
            codes=record.codes,
            ms=round(seconds * 1000, 3),
        )

    def failed(self, failure: Failure, error: BaseException | None = None) -> None:
        """A request got no decision; `error` is what was raised, when that is not the sender's fault."""
        self._metrics.failed(failure.why)
        if error is None:
            self._log.warning("refused", why=failure.why, code=failure.code, message=failure.message)
        else:
            self._log.error("undecided", why=failure.why, code=failure.code, message=str(error), exc_info=error)
