"""Lint findings: one error or warning about a policy file, for its author.

`FieldProblem` is a finding about one field of one policy before it has a source location.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tallygate.policy.model import ImpliedRequest, NamespaceCap, ResourceRule, SourceLocation


class Severity(StrEnum):
    """The severity of a finding: an error prevents the use of the policy set, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """A finding with location, reason and advice; `code` is one of `policy_codes`."""

    file: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str

    @classmethod
    def create(cls, location: SourceLocation, code: str, severity: Severity, message: str) -> "LintFinding":
        return cls(location.file, location.line, location.column, code, severity, message)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message} ({self.code})"


class FieldProblem(NamedTuple):
    """A problem of a policy; `field` is a path such as `spec.checks.perPod`, empty for the whole policy."""

    field: str
    code: str
    severity: Severity
    text: str

    @property
    def section(self) -> str:
        """The field below `spec` that it belongs to."""
        return re.split(r"[.\[]", self.field.removeprefix("spec."), maxsplit=1)[0]


def create_error(field: str, code: str, text: str) -> FieldProblem:
    """Return a problem that prevents the use of the policy set."""
    return FieldProblem(field, code, Severity.ERROR, text)


def create_warning(field: str, code: str, text: str) -> FieldProblem:
    """Return a problem that is legal but probably a mistake."""
    return FieldProblem(field, code, Severity.WARNING, text)


_NOUNS = {ResourceRule: "rule", NamespaceCap: "cap", ImpliedRequest: "implied request"}


def create_finding(policy: ResourceRule | NamespaceCap | ImpliedRequest, problem: FieldProblem) -> LintFinding:
    prefix = f"{problem.field}: " if problem.field else ""
    message = f'{_NOUNS[type(policy)]} "{policy.name}": {prefix}{problem.text}'
    return LintFinding.create(policy.get_location(problem.field), problem.code, problem.severity, message)
