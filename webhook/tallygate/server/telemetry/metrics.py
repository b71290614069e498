"""The telemetry of one server: its JSON log, and its Prometheus metrics of requests, of what is asked, and of caps.

Every label has a bounded set of values: of caps a bounded number of names, and one label for all others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tallygate.admission import rule_codes
from tallygate.admission.kinds import KIND_NAMES
from tallygate.admission.request import Phase
from tallygate.gate.decisions import DecisionRecord
from tallygate.review.cap_charge import CapObstacle
from tallygate.server.telemetry.json_log import LineWriter, Logger, create_logger, open_standard_error
from tallygate.state import ports
from tallygate.state.ledger.reserve import Prerequisite

OTHER: Final = "other"
MAX_CAPS: Final = 500
"""Maximum number of caps with a series of their own. Policies name caps, and years of edits bring ever new names."""


class CapLabels:
    """The labels of caps: the name for each of the first `max_caps` caps, `other` for the rest."""

    def __init__(self, max_caps: int = MAX_CAPS) -> None:
        self._max_caps = max_caps
        self._caps: set[str] = set()

    def get_label(self, cap: str) -> str:
        """Return the name of the cap, or `other` if `max_caps` others have labels already."""
        if cap in self._caps:
            return cap
        if len(self._caps) >= self._max_caps:
            return OTHER
        self._caps.add(cap)
        return cap


_REASON_BY_CODE: Final[Mapping[str, str]] = {
    rule_codes.OVER_CAP: "excess",
    rule_codes.NO_LIMIT_UNDER_CAP: "no-limit",
    rule_codes.WORKLOAD_OVER_CAP: "workload",
    rule_codes.WORKLOAD_OVER_FREE: "workload",
    rule_codes.WORKLOAD_ROLLOUT: "workload",
    rule_codes.WORKLOAD_AUTOSCALED_OVER_CAP: "workload",
    rule_codes.WORKLOAD_NOT_WHOLE: "excess",
}
_REASON_BY_PREREQUISITE: Final[Mapping[Prerequisite, str]] = {
    Prerequisite.ACTIVATE: "initializing",
    Prerequisite.READ_RECORD: "initializing",
    Prerequisite.CATCH_UP: "stale-namespaces",
    Prerequisite.COUNT_RESOURCES: "uncounted-resources",
    Prerequisite.COUNT_GUARANTEES: "uncounted-guarantees",
    Prerequisite.COUNT_NAMESPACES: "uncounted-namespaces",
    Prerequisite.COUNT_CONSUMERS: "uncounted-pods",
    Prerequisite.COUNT_POD: "uncounted-pod",
    Prerequisite.SETTLE_POD_NAME: "pod-name",
    Prerequisite.COUNT_CLAIM: "uncounted-claim",
    Prerequisite.CONFIRM_CLAIMS: "unconfirmed-claims",
    Prerequisite.SETTLE_NAMESPACE: "namespace-share",
    Prerequisite.SETTLE_NAMESPACE_RESERVATIONS: "namespace-reservations",
    Prerequisite.SETTLE_RESERVATIONS: "too-many-reservations",
}
_REASON_BY_ERROR: Final = (
    (ports.LedgerFullError, "object-too-large"),
    (ports.UnseenClassError, "unseen-class"),
    (ports.UnseenTemplateError, "unseen-template"),
    (ports.UnknownDeviceError, "unknown-device"),
    (ports.RetryLaterError, "contention"),
    (ports.StoreUnavailableError, "unavailable"),
)

REASONS: Final = frozenset(
    {*_REASON_BY_CODE.values(), *_REASON_BY_PREREQUISITE.values(), *(reason for _, reason in _REASON_BY_ERROR), OTHER}
)
"""Every value of the label `reason`."""


class RejectionMetrics:
    """Counters of requests that caps rejected, and of pods of privileged users that exceed a cap; without dry runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cap_labels = CapLabels()
        self._rejections = Counter(
            "tallygate_cap_rejections", "Requests that a cap rejected, by reason.", ("cap", "reason"), registry=registry
        )
        self._exceeded = Counter(
            "tallygate_cap_exceeded", "Pods with which a privileged user exceeded a cap.", ("cap",), registry=registry
        )

    def count_decision(self, record: DecisionRecord) -> None:
        """Count one decision. If a cap denied, every denying policy of the record is a cap, since rules come first."""
        if record.dry_run:
            return
        for cap in record.exceeded:
            self.count_exceeded(cap)
        self.count_obstacles(record.obstacles)
        reason = next((_REASON_BY_CODE[code] for code in record.codes if code in _REASON_BY_CODE), None)
        if reason is None:
            return
        for cap in record.rules:
            self.count_rejection(cap, reason if record.kind == "Pod" else "workload")

    def count_exceeded(self, cap: str) -> None:
        """Count a pod of a privileged user that exceeds the cap."""
        self._exceeded.labels(self._cap_labels.get_label(cap)).inc()

    def count_rejection(self, cap: str, reason: str) -> None:
        """Count one request that the cap rejected for the reason."""
        self._rejections.labels(self._cap_labels.get_label(cap), reason).inc()

    def count_obstacles(self, obstacles: Iterable[CapObstacle]) -> None:
        """Count each cap that gave no result on a pod: its ledger had a prerequisite, or the store failed."""
        for obstacle in obstacles:
            self.count_rejection(obstacle.cap, _find_reason(obstacle))


def _find_reason(obstacle: CapObstacle) -> str:
    if isinstance(obstacle.cause, Prerequisite):
        return _REASON_BY_PREREQUISITE.get(obstacle.cause, OTHER)
    return next((reason for kind, reason in _REASON_BY_ERROR if isinstance(obstacle.cause, kind)), OTHER)


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
        disable_created_metrics()  # type: ignore[no-untyped-call]  # otherwise each counter has a second series with its creation time
        self.registry = CollectorRegistry()
        self._build_version = build_version
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._requests = counter(
            "tallygate_admission_requests", "Reviews that were decided.", ("phase", "operation", "kind", "verdict")
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
        self._closed_connections = counter(
            "tallygate_connections_closed",
            "Connections that were closed for their sender's fault, by reason.",
            ("reason",),
        )
        self.policy_broken = gauge(
            "tallygate_policy_broken", "1 while the policy files are broken and an earlier set is active."
        )
        self.policy_rules = gauge("tallygate_policy_rules", "Active rules.")
        self.policy_caps = gauge("tallygate_policy_caps", "Active caps.")
        self._add_process_metrics()
        self._request_children: dict[tuple[str, str, str, str], Counter] = {}
        self._code_children: dict[str, Counter] = {}
        self._duration_children = {phase: self._durations.labels(phase.value) for phase in Phase}

    def _add_process_metrics(self) -> None:
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.certificate_not_after = gauge(
            "tallygate_certificate_not_after_timestamp_seconds", "Expiry of the serving certificate (Unix time)."
        )
        self.log_lines_dropped = counter(
            "tallygate_log_lines_dropped", "Lines of the log that were dropped, since they were not read in time."
        )
        gauge("tallygate_build_info", "What is running.", ("version", "python")).labels(
            self._build_version, python_version()
        ).set(1)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

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

    def count_closed_connections(self, reason: str, count: int) -> None:
        """Count connections that the server closed, of a reason from a fixed set."""
        self._closed_connections.labels(reason).inc(count)

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
    metrics = ServerMetrics(_get_version())
    line_writer = LineWriter(open_standard_error(), metrics.log_lines_dropped.inc)
    try:
        yield Telemetry(create_logger(level, line_writer=line_writer), metrics)
    finally:
        line_writer.flush()


def _get_version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"


class AskedMetrics(Collector):
    """The policies by what API servers ask about for them; `count_by_reach` returns the number at each collection."""

    def __init__(self, registry: CollectorRegistry, count_by_reach: Callable[[], Mapping[str, int]]) -> None:
        self._count_by_reach = count_by_reach
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the number of policies."""
        policies = GaugeMetricFamily(
            "tallygate_asked_policies", "Active policies, by what API servers ask about for them.", labels=["reach"]
        )
        for reach, count in self._count_by_reach().items():
            policies.add_metric([reach], count)
        yield policies
