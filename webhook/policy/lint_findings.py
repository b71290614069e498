"""A finding: one thing about a policy file that its author should know.

Remarks: what lint says of one field of one policy, and how that becomes a finding.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from webhook.policy.model import NamespaceCap, ResourceRule, SourceLocation


class Severity(StrEnum):
    """An error keeps the set from being used; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """What is wrong where, why, and what would pass; `code` is the number of a `webhook.accounting.problem.Code`."""

    file: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str

    @classmethod
    def create(cls, location: SourceLocation, code: str, severity: Severity, message: str) -> "LintFinding":
        """A finding at a source position."""
        return cls(location.file, location.line, location.column, code, severity, message)

    def __str__(self) -> str:
        """`file:line:column: error: message (code)`, clickable in editors."""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message} ({self.code})"


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
