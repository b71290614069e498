"""The controller that audits: at once when this replica becomes the leader, and then at a fixed interval."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from tallygate.admission.cap_sources import CapSources
from tallygate.admission.kinds import list_review_targets
from tallygate.admission.rule_index import RuleIndex
from tallygate.audit.audit import Audit, AuditInput, AuditResult, AuditScope, list_objects
from tallygate.audit.listing import PageReader, copy_nodes
from tallygate.audit.report_writer import NO_REPORT_API, ReportCounts, ReportWriter
from tallygate.errors import TallygateError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.policy.model import PolicySet
from tallygate.review.schedulability import count_pods_on_nodes
from tallygate.server.controllers.informers import GateInformers
from tallygate.server.telemetry.controller_metrics import AuditMetrics, LastAudit, log_audit
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.limit_record_store import read_limit_records

_PAGE_SIZE: Final = 50  # objects: decoding a page delays the threads that answer reviews by a millisecond or two
_REST_RATIO: Final = 9.0  # rest time / work time
_MAX_BURST_SECONDS: Final = 0.001  # the longest delay of the threads that answer reviews
_WRITE_INTERVAL_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 1.0
_EXCLUDED_NAMESPACE: Final = "kube-system"


class _AbortedError(Exception):
    """This replica stops or is no longer the leader: the new leader audits from the beginning."""


@dataclass(frozen=True, slots=True)
class AuditSchedule:
    """The schedule of audits: the interval in seconds, the policies, and whether this replica audits (`is_leader`).

    `own_namespace` is the namespace of the gate, which the webhook configuration excludes.
    """

    interval: float
    policies: Callable[[], PolicySet]
    is_leader: Callable[[], bool]
    own_namespace: str


class AuditController:
    """The worker that audits a cluster: pods, namespaces and nodes from the stores, other objects in small pages.

    `get_cap_sources` returns what caps of the gate depend on, so that the audit has the limits that requests have.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        client_config: ClientConfig,
        informers: GateInformers,
        schedule: AuditSchedule,
        log: Logger,
        metrics: AuditMetrics,
        *,
        get_cap_sources: Callable[[], CapSources],
    ) -> None:
        self._informers = informers
        self._get_cap_sources = get_cap_sources
        self._schedule = schedule
        self._log = log
        self._metrics = metrics
        self._client = ApiClient(client_config)
        self._pages = PageReader(self._client, _PAGE_SIZE, self._wait)
        self._reports = ReportWriter(client_config, time.time, self._wait, _WRITE_INTERVAL_SECONDS)
        self._work_started_at = 0.0
        self._due_at = -math.inf
        self._report_failures = FailureLog(partial(log.warning, "audit-reports-not-written"))
        task = WorkerTask(
            name="audit",
            run=self._run_if_due,
            failure_log=FailureLog(partial(log.warning, "audit-failed")),
            describe=self._describe,
            interrupt=self._client.close,  # an aborted audit leaves nothing half done
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _POLL_SECONDS))

    def _describe(self) -> dict[str, object]:
        """Return whether this replica audits, the end of the last audit, and why no reports are written."""
        last = self._metrics.last_audit
        detail: dict[str, object] = {"audits": self._schedule.is_leader()}
        if last is not None:
            detail["endedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(last.ended_at))
        if self._report_failures.failure:
            detail["reports"] = self._report_failures.failure
        return detail

    def _run_if_due(self) -> bool:
        """Audit if an audit is due here; count it as one of `RUN_RESULTS`."""
        if not self._schedule.is_leader():
            self._due_at = -math.inf
            return False
        if time.monotonic() < self._due_at or not self._informers.check().ready or self._informers.is_listing_nodes():
            return False
        self._due_at = time.monotonic() + self._schedule.interval
        result = "failed"
        try:
            self._run_audit()
            result = "completed"
        except Exception as error:
            if isinstance(error, _AbortedError) or self.worker.is_stopping:
                result = "aborted"
                return False
            raise
        finally:
            self._metrics.count_run(result)
        return True

    def _run_audit(self) -> None:
        started_at = time.monotonic()
        self._work_started_at = time.thread_time()
        outcome = self._evaluate()
        last = LastAudit(outcome, time.time(), time.monotonic() - started_at)
        report_counts = self._write_reports(outcome)
        outcome.findings.drop_findings()
        self._metrics.last_audit = last
        log_audit(self._log, last, report_counts)

    def _evaluate(self) -> AuditResult:
        informers, policies = self._informers, self._schedule.policies()
        has_pools = informers.snapshot_provider.has_pools()
        nodes = (
            copy_nodes(informers.state, self._rest_if_due, has_pools=has_pools)
            if RuleIndex(policies).has_node_rules
            else None
        )
        audit_input = AuditInput(
            informers.state.pods,
            informers.state.namespaces,
            informers.state.usage_lister,
            datetime.now(UTC),
            nodes,
            lambda _policies, _now: self._get_cap_sources(),
            has_slices=informers.state.devices.revision is not None,
            devices=informers.device_lister,
            limit_records=self._read_limit_records(),
            find_pod_defaults=informers.pod_defaults.find_pod_defaults,
            count_daemon_pods=partial(count_pods_on_nodes, snapshots=informers.snapshot_provider),
        )
        excluded = frozenset({_EXCLUDED_NAMESPACE, self._schedule.own_namespace})
        scope = AuditScope(excluded, targets=list_review_targets(policies))
        audit = Audit(policies, audit_input, scope, self._rest_if_due)
        remarks: list[str] = []
        result = audit.run(list_objects(self._pages, scope, remarks.append))
        for remark in remarks:
            result.coverage.add_remark(remark)
        return result

    def _read_limit_records(self) -> LimitRecords | None:
        """Return the annotations that gates admitted; None if there is nothing to compare, or they cannot be read."""
        if not self._informers.state.namespaces.get_limit_annotations():
            return None
        try:
            return read_limit_records(self._client, self._schedule.own_namespace)
        except TallygateError:
            return None  # the audit then reports that they are unknown

    def _write_reports(self, outcome: AuditResult) -> ReportCounts | None:
        """Write the findings as policy reports; return None if the cluster has no such API or if a call fails.

        The findings are counted and logged in both cases.
        """
        try:
            api = self._reports.find_api()
            report_counts = None if api is None else self._reports.write_reports(api, outcome.findings, None)
        except TallygateError as error:
            self._report_failures.update(str(error))
            return None
        if report_counts is None:
            self._report_failures.update(NO_REPORT_API)
            return None
        self._metrics.count_reports(report_counts)
        self._report_failures.update("; ".join(report_counts.failures))
        return report_counts

    def _rest_if_due(self, _: int) -> None:
        """Rest after each millisecond of work, so that this thread works for at most a tenth of the time."""
        work_seconds = time.thread_time() - self._work_started_at
        if work_seconds >= _MAX_BURST_SECONDS:
            self._wait(_REST_RATIO * work_seconds)
            self._work_started_at = time.thread_time()

    def _wait(self, seconds: float) -> None:
        if self.worker.wait(seconds) or not self._schedule.is_leader():
            raise _AbortedError
