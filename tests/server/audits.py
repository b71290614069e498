"""An audit that has been."""

from dataclasses import replace

from tests.audit.findings import finding
from webhook.audit.audit import AuditResult
from webhook.audit.audit_findings import AuditCoverage, AuditFindings
from webhook.server.telemetry.controller_metrics import LastAudit


def last(policies: int = 1) -> LastAudit:
    """One that has found something by each of so many policies, by the first of them most."""
    kept, looked = AuditFindings(), AuditCoverage()
    looked.evaluated["Pod"] = 7
    for number in range(policies):
        for times in range(policies - number):
            found = finding(f"{number}-{times}")
            found.problem = replace(found.problem, rule=f"rule-{number}")
            kept.add(found)
    return LastAudit(AuditResult(kept, looked, 1), 1_700_000_000.0, 2.5)
