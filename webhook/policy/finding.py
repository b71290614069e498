"""A finding: one thing about a policy file that its author should know."""

from dataclasses import dataclass
from enum import StrEnum

from webhook.policy.model import SourceLocation


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
