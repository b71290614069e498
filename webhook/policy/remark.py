"""Remarks: what lint says of one field of one policy, and how that becomes a finding."""

from typing import NamedTuple

from webhook.policy.finding import LintFinding, Severity
from webhook.policy.model import NamespaceCap, ResourceRule


class FieldProblem(NamedTuple):
    """`field` is a path such as `spec.checks.perPod`, empty when the whole policy is meant."""

    field: str
    code: str
    severity: Severity
    text: str


def create_error(field: str, code: str, text: str) -> FieldProblem:
    """What keeps the set from being used."""
    return FieldProblem(field, code, Severity.ERROR, text)


def create_warning(field: str, code: str, text: str) -> FieldProblem:
    """What is legal and probably a slip."""
    return FieldProblem(field, code, Severity.WARNING, text)


def create_finding(policy: ResourceRule | NamespaceCap, problem: FieldProblem) -> LintFinding:
    """The remark at the place of its field, with the policy's name."""
    kind = "rule" if isinstance(policy, ResourceRule) else "cap"
    prefix = f"{problem.field}: " if problem.field else ""
    message = f'{kind} "{policy.name}": {prefix}{problem.text}'
    return LintFinding.create(policy.get_location(problem.field), problem.code, problem.severity, message)
