"""Findings to keep and to report."""

from webhook.accounting.problem import Problem, Reason
from webhook.audit.audit_findings import AuditFinding, ObjectRef
from webhook.policy.model import Enforcement


def finding(
    name: str, enforcement: Enforcement = Enforcement.DENY, home: str = "team-a", message: str = "too much"
) -> AuditFinding:
    """A finding about a pod of this name."""
    problem = Problem("spec", "TG101", Reason.INVALID, message, rule="whole")
    return AuditFinding(ObjectRef("v1", "Pod", home, name, f"uid-{name}"), enforcement, problem, home)
