"""Findings to keep and to report."""

from tallygate.accounting.problem import Problem, Reason
from tallygate.audit.audit_findings import AuditFinding, ObjectRef
from tallygate.policy.model import Enforcement


def create_finding(
    name: str, enforcement: Enforcement = Enforcement.DENY, namespace: str = "team-a", message: str = "too much"
) -> AuditFinding:
    """Return a finding about the pod with this name."""
    problem = Problem("spec", "TG101", Reason.INVALID, message, rule="whole")
    return AuditFinding(ObjectRef("v1", "Pod", namespace, name, f"uid-{name}"), enforcement, problem, namespace)
