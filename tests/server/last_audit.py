"""The result of an audit."""

from dataclasses import replace

from tallygate.audit.audit import AuditResult
from tallygate.audit.audit_findings import AuditCoverage, AuditFindings
from tallygate.server.telemetry.controller_metrics import LastAudit
from tests.audit.findings import create_finding


def create_last_audit(policies: int = 1) -> LastAudit:
    """Return an audit with findings by this number of policies, most of them by the first policy."""
    findings, coverage = AuditFindings(), AuditCoverage()
    coverage.evaluated["Pod"] = 7
    for number in range(policies):
        for times in range(policies - number):
            found = create_finding(f"{number}-{times}")
            found.problem = replace(found.problem, rule=f"rule-{number}")
            findings.add(found)
    return LastAudit(AuditResult(findings, coverage, 1), 1_700_000_000.0, 2.5)
