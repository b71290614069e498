"""Metrics of audits: what the last whole one found, and how it goes with them."""

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.audit.audit import Outcome
from webhook.audit.reports import Written
from webhook.server.caps.names import OTHER
from webhook.server.reporting.logs import Logger

MOST_POLICIES: Final = 200
"""Policies with series of their own, those with the most findings first; all others go together as `other`."""

ROUNDS: Final = ("whole", "failed", "broken-off")
REPORTS: Final = ("written", "unchanged", "removed", "failed")


@dataclass(frozen=True, slots=True)
class Last:
    """The last whole audit: what it found, when it ended (Unix time), and how long it took."""

    outcome: Outcome
    ended: float
    seconds: float


class AuditFigures(Collector):
    """Counts audits; what the last one found is told by the replica that `leads` only, or it would be told twice.

    Every one tells `every` how many seconds there is to be one: so an alert knows when the last is old, or missing.
    """

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool], every: float) -> None:
        self._leads = leads
        self._every = every
        self.last: Last | None = None
        self._rounds = Counter("tallygate_audit_rounds", "Audits, by how they ended.", ("result",), registry=registry)
        self._reports = Counter(
            "tallygate_audit_reports", "Policy reports, by what an audit did to them.", ("result",), registry=registry
        )
        for result in ROUNDS:
            self._rounds.labels(result)
        for result in REPORTS:
            self._reports.labels(result)
        registry.register(self)

    def ended(self, result: str) -> None:
        """Count an audit that was `whole`, `failed`, or `broken-off` since another replica leads now."""
        self._rounds.labels(result).inc()

    def reported(self, written: Written) -> None:
        """Count what became of reports."""
        for result in REPORTS:
            self._reports.labels(result).inc(getattr(written, result))

    def collect(self) -> Iterator[Metric]:
        """The schedule, and the last whole audit."""
        yield GaugeMetricFamily(
            "tallygate_audit_interval_seconds", "From the beginning of one audit to that of the next.", self._every
        )
        findings = GaugeMetricFamily(
            "tallygate_audit_findings",
            "What the last audit found stored, by policy and by how strictly that is enforced.",
            labels=["by", "policy", "enforcement"],
        )
        objects = GaugeMetricFamily("tallygate_audit_objects", "Objects that the last audit judged.", labels=["kind"])
        seconds = GaugeMetricFamily("tallygate_audit_seconds", "How long the last audit took, with its rests.")
        ended = GaugeMetricFamily(
            "tallygate_audit_last_success_timestamp_seconds", "When the last whole audit ended (Unix time)."
        )
        last = self.last if self._leads() else None
        if last is not None:
            for labels, number in _bounded(last.outcome).items():
                findings.add_metric(labels, number)
            for kind, number in sorted(last.outcome.looked.judged.items()):
                objects.add_metric([kind], number)
            seconds.add_metric([], last.seconds)
            ended.add_metric([], last.ended)
        yield from (findings, objects, seconds, ended)


def _bounded(outcome: Outcome) -> Sums[tuple[str, str, str]]:
    """Findings by policy; of a kind of policy without any one series says so."""
    sums: Sums[tuple[str, str, str]] = Sums()
    for rank, (policy, number) in enumerate(outcome.kept.by_policy.most_common()):
        sums[policy.by, policy.name if rank < MOST_POLICIES else OTHER, policy.enforcement.value] += number
    return sums


def log(logger: Logger, last: Last, written: Written | None) -> None:
    """One line for one audit."""
    kept, looked = last.outcome.kept, last.outcome.looked
    reports = {} if written is None else {name: getattr(written, name) for name in REPORTS}
    logger.info(
        "audited",
        objects=looked.judged.total(),
        namespaces=last.outcome.namespaces,
        findings={enforcement.value: number for enforcement, number in kept.counts().items()},
        unreadable=looked.unreadable,
        seconds=round(last.seconds, 1),
        reports=reports,
    )
