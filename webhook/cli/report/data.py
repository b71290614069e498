"""Findings as plain data, for `-o json` and `-o yaml`."""

from collections.abc import Sequence
from typing import Any

from webhook.cli import catalogue
from webhook.cli.report.finding import Finding
from webhook.cli.report.summary import Seen, as_data


def document(findings: Sequence[Finding], seen: Seen) -> dict[str, Any]:
    """All findings and the summary. Keys are as in Kubernetes' JSON; a change of their meaning is a breaking one."""
    return {"findings": [of_finding(finding) for finding in findings], "summary": as_data(seen, findings)}


def of_finding(finding: Finding) -> dict[str, Any]:
    """One finding."""
    subject = finding.subject
    return {
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "level": finding.level.value,
        "code": finding.code,
        "name": catalogue.of(finding.code).slug,
        "message": finding.message,
        "by": finding.by,
        "why": finding.why,
        "field": finding.field,
        "document": subject.document,
        "object": {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name},
        "source": subject.origin,
    }
