"""Metrics of audits: bounded, of the last completed audit, and of the leader."""

from prometheus_client import CollectorRegistry

from tallygate.audit.report_writer import ReportCounts
from tallygate.server.telemetry import controller_metrics
from tallygate.server.telemetry.controller_metrics import AuditMetrics, log_audit
from tests.server.app_harness import Log
from tests.server.last_audit import create_last_audit
from tests.server.test_controller_metrics import list_metric_lines


def test_findings_are_reported_by_policy() -> None:
    registry = CollectorRegistry()
    metrics = AuditMetrics(registry, lambda: True, 3600.0)
    metrics.last_audit = create_last_audit()
    assert {
        'tallygate_audit_findings{by="rule",enforcement="deny",policy="rule-0"} 1.0',
        "tallygate_audit_duration_seconds 2.5",
        "tallygate_audit_last_success_timestamp_seconds 1.7e+09",
    } <= list_metric_lines(registry)


def test_before_the_first_audit_and_without_leadership_no_audit_is_reported() -> None:
    registry, is_leader = CollectorRegistry(), [True, False]
    metrics = AuditMetrics(registry, lambda: is_leader[0], 3600.0)
    assert not any("audit_findings" in line or "audit_last" in line for line in list_metric_lines(registry))
    metrics.last_audit = create_last_audit()
    is_leader.pop(0)
    assert not any("audit_findings" in line or "audit_last" in line for line in list_metric_lines(registry))
    assert "tallygate_audit_interval_seconds 3600.0" in list_metric_lines(registry)


def test_policies_beyond_the_limit_share_a_label() -> None:
    registry = CollectorRegistry()
    metrics = AuditMetrics(registry, lambda: True, 3600.0)
    metrics.last_audit = create_last_audit(controller_metrics.MAX_POLICIES + 3)
    found = [line for line in list_metric_lines(registry) if line.startswith("tallygate_audit_findings")]
    assert len(found) == controller_metrics.MAX_POLICIES + 1
    assert 'tallygate_audit_findings{by="rule",enforcement="deny",policy="other"} 6.0' in found


def test_runs_and_reports_are_counted_from_zero() -> None:
    registry = CollectorRegistry()
    metrics = AuditMetrics(registry, lambda: True, 3600.0)
    assert 'tallygate_audit_runs_total{result="failed"} 0.0' in list_metric_lines(registry)
    metrics.count_run("failed")
    metrics.count_reports(ReportCounts("openreports.io/v1alpha1", written=2, removed=1))
    assert {
        'tallygate_audit_runs_total{result="failed"} 1.0',
        'tallygate_audit_reports_total{result="written"} 2.0',
        'tallygate_audit_reports_total{result="removed"} 1.0',
        'tallygate_audit_reports_total{result="unchanged"} 0.0',
    } <= list_metric_lines(registry)


def test_an_audit_is_one_line_of_the_log() -> None:
    log = Log()
    log_audit(log.logger, create_last_audit(), ReportCounts("openreports.io/v1alpha1", unchanged=3))
    (line,) = log.lines
    assert (line["event"], line["objects"], line["findings"], line["seconds"]) == ("audited", 7, {"deny": 1}, 2.5)
    assert line["reports"] == {"written": 0, "unchanged": 3, "removed": 0, "failed": 0}
