"""The thread that audits: at once when this replica becomes the leader, and then at a fixed interval."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from webhook.admission.rule_index import RuleIndex
from webhook.audit.audit import Audit, AuditInput, AuditResult, AuditScope, list_objects
from webhook.audit.listing import PageReader, list_nodes
from webhook.audit.report_writer import NO_REPORT_API, ReportCounts, ReportWriter
from webhook.errors import TallygateError
from webhook.kube.client import PooledTransport
from webhook.kube.config import ClientConfig
from webhook.policy.model import PolicySet
from webhook.server.controllers.informers import GateInformers
from webhook.server.interfaces import ReadinessStatus
from webhook.server.telemetry.controller_metrics import AuditMetrics, LastAudit, log_audit
from webhook.server.telemetry.json_log import Logger

_PAGE_SIZE: Final = 50  # objects: decoding a page delays the threads that answer reviews by a millisecond or two
_REST_RATIO: Final = 9.0  # rest time / work time
_MAX_BURST_SECONDS: Final = 0.001  # the longest delay of the threads that answer reviews
_WRITE_INTERVAL_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0
_EXCLUDED_NAMESPACE: Final = "kube-system"


class _AbortedError(Exception):
    """This replica stops or is not the leader any more: the new leader audits from the beginning."""


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
    """A thread that audits a watched cluster: pods and namespaces from the stores, all other objects in small pages."""

    def __init__(
        self,
        client_config: ClientConfig,
        informers: GateInformers,
        schedule: AuditSchedule,
        log: Logger,
        metrics: AuditMetrics,
    ) -> None:
        self._informers = informers
        self._schedule = schedule
        self._log = log
        self._metrics = metrics
        self._transport = PooledTransport(client_config)
        self._pages = PageReader(self._transport, client_config.server, _PAGE_SIZE, self._wait)
        self._reports = ReportWriter(client_config, time.time, self._wait, _WRITE_INTERVAL_SECONDS)
        self._work_started_at = 0.0
        self._failures: dict[str, str] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread; call once only."""
        self._thread.start()

    def stop(self) -> None:
        """Stop at once, since an aborted audit leaves nothing half done; wait for at most 5 s."""
        self._stop.set()
        self._transport.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Return a status that is always ready, since reviews do not need audits.

        The detail has the end of the last audit and the current failures.
        """
        last = self._metrics.last_audit
        detail: dict[str, object] = {"audits": self._schedule.is_leader()}
        if last is not None:
            detail["endedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(last.ended_at))
        return ReadinessStatus("audit", ready=True, detail=detail | self._failures)

    def _run(self) -> None:
        due_at = -math.inf
        while not self._stop.wait(_POLL_SECONDS):
            if not self._schedule.is_leader():
                due_at = -math.inf
            elif time.monotonic() >= due_at and self._informers.check().ready:
                due_at = time.monotonic() + self._schedule.interval
                self._metrics.count_run(self._run_once())

    def _run_once(self) -> str:
        """Audit once, and return the result as one of `RUN_RESULTS`."""
        try:
            self._run_audit()
        except _AbortedError:
            return "aborted"
        except TallygateError as error:
            return self._record_failure(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not end audits for good
            return self._record_failure(f"{type(crash).__name__}: {crash}")
        self._set_failure("failure", "", "audit-failed")
        return "completed"

    def _record_failure(self, reason: str) -> str:
        if self._stop.is_set():
            return "aborted"
        self._set_failure("failure", reason, "audit-failed")
        return "failed"

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
        node_list = list_nodes(self._pages) if RuleIndex(policies).has_node_rules else None
        audit_input = AuditInput(informers.pod_store, informers.namespace_store, informers.usage_lister, node_list)
        scope = AuditScope(frozenset({_EXCLUDED_NAMESPACE, self._schedule.own_namespace}))
        audit = Audit(policies, audit_input, scope, self._rest_if_due)
        return audit.run(list_objects(self._pages, scope))

    def _write_reports(self, outcome: AuditResult) -> ReportCounts | None:
        """Write the findings as policy reports; return None if the cluster has no such API or if a call fails.

        The findings are counted and logged in both cases.
        """
        try:
            api = self._reports.find_api()
            if api is None:
                self._set_failure("reports", NO_REPORT_API, "audit-reports-not-written")
                return None
            report_counts = self._reports.write_reports(api, outcome.findings, None)
        except TallygateError as error:
            self._set_failure("reports", str(error), "audit-reports-not-written")
            return None
        self._metrics.count_reports(report_counts)
        self._set_failure("reports", "; ".join(report_counts.failures), "audit-reports-not-written")
        return report_counts

    def _rest_if_due(self, _: int) -> None:
        """Rest after each millisecond of work, so that this thread works for at most a tenth of the time."""
        work_seconds = time.thread_time() - self._work_started_at
        if work_seconds >= _MAX_BURST_SECONDS:
            self._wait(_REST_RATIO * work_seconds)
            self._work_started_at = time.thread_time()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds) or not self._schedule.is_leader():
            raise _AbortedError

    def _set_failure(self, key: str, reason: str, event: str) -> None:
        """Store the failure of a key, or drop it if `reason` is ""; log a failure that differs from the last one."""
        previous = self._failures.get(key, "")
        if reason:
            self._failures = {**self._failures, key: reason}
        else:
            self._failures = {name: text for name, text in self._failures.items() if name != key}
        if reason and reason != previous:
            self._log.warning(event, message=reason)
