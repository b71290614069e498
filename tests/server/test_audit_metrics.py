"""Metrics of audits: bounded, of the last whole one, and of one replica."""

from prometheus_client import CollectorRegistry

from tests.server.audits import last
from tests.server.building import Log
from tests.server.test_controller_metrics import shown
from webhook.audit.report_writer import ReportCounts
from webhook.server.telemetry import controller_metrics
from webhook.server.telemetry.controller_metrics import AuditMetrics, log_audit


def test_what_was_found_is_told_by_policy() -> None:
    registry = CollectorRegistry()
    told = AuditMetrics(registry, lambda: True, 3600.0)
    told.last_audit = last()
    assert {
        'tallygate_audit_findings{by="rule",enforcement="deny",policy="rule-0"} 1.0',
        'tallygate_audit_objects{kind="Pod"} 7.0',
        "tallygate_audit_duration_seconds 2.5",
        "tallygate_audit_last_success_timestamp_seconds 1.7e+09",
    } <= shown(registry)


def test_before_the_first_audit_and_where_another_replica_leads_nothing_is_told_of_one() -> None:
    registry, leads = CollectorRegistry(), [True, False]
    told = AuditMetrics(registry, lambda: leads[0], 3600.0)
    assert not any("audit_findings" in line or "audit_last" in line for line in shown(registry))
    told.last_audit = last()
    leads.pop(0)
    assert not any("audit_findings" in line or "audit_last" in line for line in shown(registry))
    assert "tallygate_audit_interval_seconds 3600.0" in shown(registry)


def test_policies_beyond_the_bound_go_together() -> None:
    registry = CollectorRegistry()
    told = AuditMetrics(registry, lambda: True, 3600.0)
    told.last_audit = last(controller_metrics.MAX_POLICIES + 3)
    found = [line for line in shown(registry) if line.startswith("tallygate_audit_findings")]
    assert len(found) == controller_metrics.MAX_POLICIES + 1
    assert 'tallygate_audit_findings{by="rule",enforcement="deny",policy="other"} 6.0' in found


def test_rounds_and_reports_are_counted_from_nothing_on() -> None:
    registry = CollectorRegistry()
    told = AuditMetrics(registry, lambda: True, 3600.0)
    assert 'tallygate_audit_runs_total{result="failed"} 0.0' in shown(registry)
    told.count_run("failed")
    told.count_reports(ReportCounts("openreports.io/v1alpha1", written=2, removed=1))
    assert {
        'tallygate_audit_runs_total{result="failed"} 1.0',
        'tallygate_audit_reports_total{result="written"} 2.0',
        'tallygate_audit_reports_total{result="removed"} 1.0',
        'tallygate_audit_reports_total{result="unchanged"} 0.0',
    } <= shown(registry)


def test_an_audit_is_one_line_of_the_log() -> None:
    kept = Log()
    log_audit(kept.logger, last(), ReportCounts("openreports.io/v1alpha1", unchanged=3))
    (line,) = kept.lines
    assert (line["event"], line["objects"], line["findings"], line["seconds"]) == ("audited", 7, {"deny": 1}, 2.5)
    assert line["reports"] == {"written": 0, "unchanged": 3, "removed": 0, "failed": 0}
