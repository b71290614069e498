"""The telemetry of one server: its JSON log and its Prometheus metrics. Every label has a bounded set of values."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from webhook.admission.kinds import KIND_NAMES
from webhook.admission.request import Phase
from webhook.server.telemetry.json_log import LineWriter, Logger, create_logger
from webhook.server.telemetry.labels import OTHER
from webhook.server.telemetry.rejection_metrics import RejectionMetrics

OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
VERDICTS: Final = frozenset({"allow", "deny", "retry"})
_MAX_CODES: Final = 256
_DURATION_BUCKETS: Final = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.1,
    0.5,
    1.0,
    2.5,
    10.0,
)


class ServerMetrics:
    """All metrics of one server, in one registry. Children are cached, so that a request costs dictionary lookups.

    `build_version` is the version of the running build.
    """

    def __init__(self, build_version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else every counter is told twice: when it was made
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._requests = counter(
            "tallygate_admission_requests",
            "Reviews that were decided.",
            ("phase", "operation", "kind", "verdict"),
        )
        self._problems = counter("tallygate_admission_problems", "Problems that denied a review, by code.", ("code",))
        self._failures = counter(
            "tallygate_admission_failures", "Requests that were not decided, by reason.", ("reason",)
        )
        self._durations = Histogram(
            "tallygate_admission_duration_seconds",
            "Time from the arrival of a request to its response, in seconds.",
            ("phase",),
            registry=self.registry,
            buckets=_DURATION_BUCKETS,
        )
        self.rejections = RejectionMetrics(self.registry)
        self._policy_reloads = counter(
            "tallygate_policy_reloads", "Reloads of changed policy files, by result.", ("result",)
        )
        self.policy_loaded_at = gauge(
            "tallygate_policy_last_success_timestamp_seconds",
            "Time at which the active policies were loaded (Unix time).",
        )
        self.policy_broken = gauge(
            "tallygate_policy_broken", "1 while the policy files are broken and an earlier set is active."
        )
        self.policy_rules = gauge("tallygate_policy_rules", "Active rules.")
        self.policy_caps = gauge("tallygate_policy_caps", "Active caps.")
        self._certificate_reloads = counter(
            "tallygate_certificate_reloads", "Reloads of changed certificate files, by result.", ("result",)
        )
        self.certificate_not_after = gauge(
            "tallygate_certificate_not_after_timestamp_seconds", "Expiry of the serving certificate (Unix time)."
        )
        gauge("tallygate_build_info", "What is running.", ("version", "python")).labels(
            build_version, python_version()
        ).set(1)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._request_children: dict[tuple[str, str, str, str], Counter] = {}
        self._code_children: dict[str, Counter] = {}
        self._duration_children = {phase: self._durations.labels(phase.value) for phase in Phase}

    def count_decision(self, phase: Phase, operation: str, kind: str, verdict: str, seconds: float) -> None:
        """Count one decided review."""
        key = (phase, operation, kind, verdict)
        child = self._request_children.get(key)
        if child is None:
            child = self._create_request_child(phase, operation, kind, verdict)
        child.inc()
        self._duration_children[phase].observe(seconds)

    def count_problem(self, code: str) -> None:
        """Count one problem that denied a review."""
        child = self._code_children.get(code)
        if child is None:
            child = self._problems.labels(code if len(self._code_children) < _MAX_CODES else OTHER)
            if len(self._code_children) < _MAX_CODES:
                self._code_children[code] = child
        child.inc()

    def count_failure(self, reason: str) -> None:
        """Count one request that was not decided."""
        self._failures.labels(reason).inc()

    def count_policy_reload(self, *, success: bool) -> None:
        """Count one change of the policy files."""
        self._policy_reloads.labels("success" if success else "failure").inc()

    def count_certificate_reload(self, *, success: bool) -> None:
        """Count one change of the certificate files."""
        self._certificate_reloads.labels("success" if success else "failure").inc()

    def _create_request_child(self, phase: Phase, operation: str, kind: str, verdict: str) -> Counter:
        """Return the child for the label values; cache it only if all are known: a hostile kind costs no memory."""
        label_values = (
            phase.value,
            operation if operation in OPERATIONS else OTHER,
            kind if kind in KIND_NAMES else OTHER,
            verdict if verdict in VERDICTS else OTHER,
        )
        child = self._requests.labels(*label_values)
        if label_values == (phase, operation, kind, verdict):
            self._request_children[label_values] = child
        return child


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The log and the metrics of one server."""

    log: Logger
    metrics: ServerMetrics


@contextmanager
def start_telemetry(level: str) -> Iterator[Telemetry]:
    """Yield telemetry that logs to stderr from `level` on; flush the log on exit."""
    line_writer = LineWriter(sys.stderr.buffer)
    try:
        yield Telemetry(create_logger(level, line_writer=line_writer), ServerMetrics(_get_version()))
    finally:
        line_writer.flush()


def _get_version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
