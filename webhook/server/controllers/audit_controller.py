"""The thread that audits: at once where this replica begins to keep ledgers, and then every so often."""

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
from webhook.policy.model import PolicySet
from webhook.server.controllers.informers import GateInformers
from webhook.server.interfaces import ReadinessStatus
from webhook.server.telemetry.controller_metrics import AuditMetrics, LastAudit, log_audit
from webhook.server.telemetry.json_log import Logger
from webhook.state.watch.connect import Connection
from webhook.state.watch.pool import PooledTransport

_PAGE_SIZE: Final = 50  # objects: what is decoded at once holds up whoever answers, for a millisecond or two
_REST_RATIO: Final = 9.0  # times as long as it has worked
_MAX_BURST_SECONDS: Final = 0.001  # so long whoever answers one request at a time may wait for it
_WRITE_INTERVAL_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0
_EXCLUDED_NAMESPACE: Final = "kube-system"


class _AbortedError(Exception):
    """This replica ends, or leads no more: what was begun is left to who leads now."""


@dataclass(frozen=True, slots=True)
class AuditSchedule:
    """What is audited: every how many seconds, by which policies; `leads` says whether by this replica.

    `own_namespace` is the gate's, in which it is not asked.
    """

    interval: float
    policies: Callable[[], PolicySet]
    is_leader: Callable[[], bool]
    own_namespace: str


class AuditController:
    """Audits a cluster that is followed: pods and namespaces as they are seen, all else in small pages."""

    def __init__(
        self,
        client_config: Connection,
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
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End at once: an audit changes nothing that could be left half done."""
        self._stop.set()
        self._transport.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Always ready: reviews are answered without it. The detail says when it was done last, and what is wrong."""
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
        """Audit once; how that ended."""
        try:
            self._run_audit()
        except _AbortedError:
            return "broken-off"
        except TallygateError as error:
            return self._record_failure(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not end audits for good
            return self._record_failure(f"{type(crash).__name__}: {crash}")
        self._set_failure("failure", "", "audit-failed")
        return "whole"

    def _record_failure(self, reason: str) -> str:
        if self._stop.is_set():
            return "broken-off"
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
        world = AuditInput(informers.pod_store, informers.namespace_store, informers.usage_lister, node_list)
        scope = AuditScope(frozenset({_EXCLUDED_NAMESPACE, self._schedule.own_namespace}))
        audit = Audit(policies, world, scope, self._rest_if_due)
        return audit.run(list_objects(self._pages, scope))

    def _write_reports(self, outcome: AuditResult) -> ReportCounts | None:
        """Write what was found into the cluster, if that has reports; findings are told all the same if it has not."""
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
        """Rest after a millisecond of work, so long that this thread works for a tenth of the time at most."""
        work_seconds = time.thread_time() - self._work_started_at
        if work_seconds >= _MAX_BURST_SECONDS:
            self._wait(_REST_RATIO * work_seconds)
            self._work_started_at = time.thread_time()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds) or not self._schedule.is_leader():
            raise _AbortedError

    def _set_failure(self, key: str, reason: str, event: str) -> None:
        """Remember what is wrong, or that nothing is; log it when it is another than before."""
        previous = self._failures.get(key, "")
        if reason:
            self._failures = {**self._failures, key: reason}
        else:
            self._failures = {name: text for name, text in self._failures.items() if name != key}
        if reason and reason != previous:
            self._log.warning(event, message=reason)
