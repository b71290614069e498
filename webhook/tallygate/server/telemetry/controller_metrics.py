"""Metrics of the controllers: watches, reconciliations of ledgers, audits, and what caps grant beside nodes."""

from collections import Counter as Sums
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tallygate.accounting.amounts import is_milli
from tallygate.answers.capacity_report import CapacityRecord
from tallygate.audit.audit import AuditResult
from tallygate.audit.report_writer import ReportCounts
from tallygate.kube.informer import InformerStatus
from tallygate.server.telemetry.json_log import Logger
from tallygate.server.telemetry.ledger_metrics import ObservedLedgers
from tallygate.server.telemetry.metrics import OTHER


class LedgerControllerMetrics(Collector):
    """The metrics of the ledger controller and of the watches.

    It counts reconciliations, and the controller records the ledgers in `observed_ledgers`. It calls `list_statuses`
    whenever metrics are collected. `is_leader` returns whether this replica reconciles the ledgers.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        list_statuses: Callable[[], Sequence[InformerStatus]],
        observed_ledgers: ObservedLedgers,
        is_leader: Callable[[], bool],
    ) -> None:
        self._list_statuses = list_statuses
        self.observed_ledgers = observed_ledgers
        self._is_leader = is_leader
        self._reconciles = Counter(
            "tallygate_ledger_reconcile", "Reconciliations of ledgers, by result.", ("result",), registry=registry
        )
        self._expired = Counter(
            "tallygate_reservations_expired",
            "Reservations that expired because their pod was never stored.",
            registry=registry,
        )
        registry.register(self)

    def count_reconcile(self, result: str) -> None:
        """Count a reconciliation with the result `written`, `unchanged` or `failed`."""
        self._reconciles.labels(result).inc()

    def count_expired(self, count: int) -> None:
        self._expired.inc(count)

    def collect(self) -> Iterator[Metric]:
        """Yield the state of the watches by resource, and whether this replica is the leader."""
        objects = GaugeMetricFamily("tallygate_watch_objects", "Objects in the store.", labels=["resource"])
        age = GaugeMetricFamily(
            "tallygate_watch_age_seconds", "Time since the store was last known to be current.", labels=["resource"]
        )
        restarts = CounterMetricFamily(
            "tallygate_watch_restarts", "Restarts of lists and watches, by reason.", labels=["resource", "reason"]
        )
        added = CounterMetricFamily(
            "tallygate_watch_added", "Objects that were created, as their watch delivered them.", labels=["resource"]
        )
        for status in self._list_statuses():
            added.add_metric([status.name], status.added)
            objects.add_metric([status.name], status.objects)
            if status.age is not None:
                age.add_metric([status.name], status.age)
            for reason, count in status.restarts.items():
                restarts.add_metric([status.name, reason], count)
        leader = GaugeMetricFamily("tallygate_leader", "1 while this replica is the leader.")
        leader.add_metric([], self._is_leader())
        yield from (objects, age, restarts, added, leader)


MAX_POLICIES: Final = 200
"""Maximum number of policies with a series of their own, by number of findings; all others share the label `other`."""

RUN_RESULTS: Final = ("completed", "failed", "aborted")
REPORT_RESULTS: Final = ("written", "unchanged", "removed", "failed")


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The last complete audit: its result, its end (Unix time), and its duration in seconds."""

    outcome: AuditResult
    ended_at: float
    duration: float


class AuditMetrics(Collector):
    """The metrics of audits. Only the leader reports the result of the last audit, so that no finding counts twice.

    Every replica reports `interval` in seconds, so that an alert can find an old or missing audit.
    """

    def __init__(self, registry: CollectorRegistry, is_leader: Callable[[], bool], interval: float) -> None:
        self._is_leader = is_leader
        self._interval = interval
        self.last_audit: LastAudit | None = None
        self._runs = Counter("tallygate_audit_runs", "Audits, by result.", ("result",), registry=registry)
        self._reports = Counter(
            "tallygate_audit_reports", "Policy reports of audits, by result.", ("result",), registry=registry
        )
        for result in RUN_RESULTS:
            self._runs.labels(result)
        for result in REPORT_RESULTS:
            self._reports.labels(result)
        registry.register(self)

    def count_run(self, result: str) -> None:
        """Count an audit that was `completed`, `failed`, or `aborted` since this replica stopped or lost its lease."""
        self._runs.labels(result).inc()

    def count_reports(self, report_counts: ReportCounts) -> None:
        """Count the policy reports of one audit by result."""
        for result in REPORT_RESULTS:
            self._reports.labels(result).inc(getattr(report_counts, result))

    def collect(self) -> Iterator[Metric]:
        """Yield the interval, and the result of the last complete audit."""
        yield GaugeMetricFamily(
            "tallygate_audit_interval_seconds", "Time between the starts of two audits.", self._interval
        )
        findings = GaugeMetricFamily(
            "tallygate_audit_findings",
            "Findings of the last audit, by policy and enforcement.",
            labels=["by", "policy", "enforcement"],
        )
        seconds = GaugeMetricFamily("tallygate_audit_duration_seconds", "Duration of the last audit, with its pauses.")
        ended = GaugeMetricFamily(
            "tallygate_audit_last_success_timestamp_seconds", "End of the last complete audit (Unix time)."
        )
        last = self.last_audit if self._is_leader() else None
        if last is not None:
            for labels, count in _sum_by_policy(last.outcome).items():
                findings.add_metric(labels, count)
            seconds.add_metric([], last.duration)
            ended.add_metric([], last.ended_at)
        yield from (findings, seconds, ended)


def _sum_by_policy(outcome: AuditResult) -> Sums[tuple[str, str, str]]:
    """Return the number of findings by the labels `by`, `policy` and `enforcement`.

    A kind of policy without findings has one series with the value 0.
    """
    sums: Sums[tuple[str, str, str]] = Sums()
    for rank, (policy, count) in enumerate(outcome.findings.by_policy.most_common()):
        sums[policy.by, policy.name if rank < MAX_POLICIES else OTHER, policy.enforcement.value] += count
    return sums


def log_audit(logger: Logger, last: LastAudit, report_counts: ReportCounts | None) -> None:
    """Log one line about one audit."""
    findings, coverage = last.outcome.findings, last.outcome.coverage
    reports = {} if report_counts is None else {name: getattr(report_counts, name) for name in REPORT_RESULTS}
    logger.info(
        "audited",
        objects=coverage.evaluated.total(),
        namespaces=last.outcome.namespace_count,
        findings={enforcement.value: number for enforcement, number in findings.count_by_enforcement().items()},
        unreadable=coverage.unreadable,
        seconds=round(last.duration, 1),
        reports=reports,
        **({"remarks": list(coverage.remarks)} if coverage.remarks else {}),
    )


MAX_CAPACITY_AGE_SECONDS: Final = 30.0
"""The time for which the amounts are not computed again: with 10,000 ledgers that takes a part of a second."""

_CAPACITY_AMOUNTS: Final[dict[str, tuple[str, Callable[[CapacityRecord], int | None]]]] = {
    "allocatable": ("What all nodes have of a resource that a cap limits", lambda record: record.capacity),
    "granted": ("The most that all namespaces with a cap may have together", lambda record: record.granted),
    "guaranteed": ("What namespaces have for themselves under shared caps", lambda record: record.guaranteed),
    "stranded": ("What is free on nodes and that no pod under a cap may use", lambda record: record.stranded),
    "unreachable": ("What is free in caps and that no node has free", lambda record: record.unreachable),
}


class CapacityMetrics(Collector):
    """The amounts of each resource. Only the leader reports them, and only while `list_records` knows the cluster."""

    def __init__(
        self,
        registry: CollectorRegistry,
        list_records: Callable[[], Sequence[CapacityRecord] | None],
        is_leader: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._list_records = list_records
        self._is_leader = is_leader
        self._monotonic = monotonic
        self._computed: tuple[float, Sequence[CapacityRecord]] | None = None
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield each amount that is known, by resource."""
        records = self._find_records() if self._is_leader() else ()
        for name, (help_text, get_amount) in _CAPACITY_AMOUNTS.items():
            family = GaugeMetricFamily(f"tallygate_capacity_{name}", f"{help_text}; cpu in cores.", labels=["resource"])
            for record in records:
                amount = get_amount(record)
                if amount is not None:
                    family.add_metric([record.name], amount / 1000 if is_milli(record.name) else amount)
            yield family

    def _find_records(self) -> Sequence[CapacityRecord]:
        now = self._monotonic()
        if self._computed is None or now - self._computed[0] > MAX_CAPACITY_AGE_SECONDS:
            records = self._list_records()
            self._computed = None if records is None else (now, records)
        return () if self._computed is None else self._computed[1]
