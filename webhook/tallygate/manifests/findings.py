"""Findings and the summary of a run.

A finding is one problem of one file, from any check, ready to be printed. The summary counts the checked objects and
their findings.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

STDIN_NAME = "<stdin>"
"""The file of findings about stdin."""


class FindingSeverity(StrEnum):
    """The severity of a finding: an error fails the command, a warning under `--strict`, a note never."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class FindingSubject:
    """The object of a finding; all fields are empty for a finding about the file. `document` counts from 0."""

    document: int = 0
    kind: str = ""
    namespace: str = ""
    name: str = ""
    origin: str = ""

    def __str__(self) -> str:
        """Return a text such as `Pod team-a/trainer`, without the unknown parts."""
        qualified_name = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {qualified_name}".strip()

    def to_dict(self) -> dict[str, str]:
        """Return the kind, the namespace and the name."""
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A problem, its location and its reporter.

    `line` and `column` count from 1, and are 0 for an object of a cluster. `reporter` is `the API server`, `tallygate`,
    `rule NAME` or `cap NAME`; `field` the path as Kubernetes prints it, empty for a whole file; `why` the reason that
    the author of a policy gives.
    """

    file: str
    line: int
    column: int
    severity: FindingSeverity
    code: str
    message: str
    reporter: str = "tallygate"
    field: str = ""
    subject: FindingSubject = FindingSubject()
    why: str = ""

    @property
    def location(self) -> str:
        """The location as `file:line:column`, clickable in editors."""
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def template(self) -> str:
        """The template that stdin was rendered from, by its `# Source:` comment, or an empty text."""
        return self.subject.origin if self.file == STDIN_NAME else ""

    @property
    def field_message(self) -> str:
        """The message with the field before it."""
        return f"{self.field}: {self.message}" if self.field else self.message

    @property
    def attribution(self) -> str:
        """The reporter and the author's reason: `rule whole-gpus: GPUs cannot be split`."""
        return f"{self.reporter}: {self.why}" if self.why else self.reporter


class Summary(Protocol):
    """The summary of a report: lines for stderr, or data for a format that has a place for it."""

    def list_lines(self, findings: Sequence[Finding]) -> list[str]:
        """Return the lines of the summary."""

    def to_dict(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """Return the summary as plain data."""


@dataclass(slots=True)
class RunSummary:
    """The numbers of a run. `item_count` counts the items named `noun`.

    `skipped_kinds` are the kinds without checks, `unread_kinds` those of objects that should have been checked, but are
    not read.
    """

    noun: str
    file_count: int = 0
    item_count: int = 0
    skipped_kinds: Counter[str] = field(default_factory=Counter)
    unread_kinds: Counter[str] = field(default_factory=Counter)
    non_object_count: int = 0
    notes: list[str] = field(default_factory=list)

    def list_lines(self, findings: Sequence[Finding]) -> list[str]:
        """Return the lines of the summary."""
        severity_counts = count_severities(findings)
        counts_text = ", ".join(
            _format_count(severity_counts[severity], severity.value)
            for severity in FindingSeverity
            if severity_counts[severity]
        )
        items = _format_count(self.item_count, self.noun)
        files = _format_count(self.file_count, "file")
        lines = [f"{items} in {files}: {counts_text or 'nothing found'}"]
        for kinds, text in (
            (self.unread_kinds, "not checked, since the kind is not read"),
            (self.skipped_kinds, "of other kinds skipped"),
        ):
            if kinds:
                listed = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
                lines.append(f"{_format_count(kinds.total(), 'object')} {text}: {listed}")
        if self.non_object_count:
            verb = "is no object" if self.non_object_count == 1 else "are no objects"
            lines.append(f"{_format_count(self.non_object_count, 'document')} skipped that {verb} of Kubernetes")
        return lines + self.notes

    def to_dict(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """Return the summary as plain data."""
        severity_counts = count_severities(findings)
        return {
            "files": self.file_count,
            f"{self.noun}s" if not self.noun.endswith("y") else "policies": self.item_count,
            **{f"{severity.value}s": severity_counts[severity] for severity in FindingSeverity},
            "notRead": dict(sorted(self.unread_kinds.items())),
            "passedOver": dict(sorted(self.skipped_kinds.items())),
            "notObjects": self.non_object_count,
            "remarks": self.notes,
        }


def count_severities(findings: Sequence[Finding]) -> Counter[FindingSeverity]:
    """Return the number of findings of each severity."""
    return Counter(finding.severity for finding in findings)


def is_failure(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Return whether the findings fail the command: errors do, and with `strict` warnings too."""
    severity_counts = count_severities(findings)
    return bool(severity_counts[FindingSeverity.ERROR] or (strict and severity_counts[FindingSeverity.WARNING]))


def _format_count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"
