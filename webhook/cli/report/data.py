"""Findings as plain data, for `-o json` and `-o yaml`."""

from collections.abc import Sequence
from typing import Any

from webhook.cli import catalogue
from webhook.cli.report.finding import Finding
from webhook.cli.report.summary import RunSummary, summary_to_dict


def findings_to_dict(findings: Sequence[Finding], run_summary: RunSummary) -> dict[str, Any]:
    """All findings and the summary. Keys are as in Kubernetes' JSON; a change of their meaning is a breaking one."""
    return {
        "findings": [finding_to_dict(finding) for finding in findings],
        "summary": summary_to_dict(run_summary, findings),
    }


def finding_to_dict(finding: Finding) -> dict[str, Any]:
    """One finding."""
    subject = finding.subject
    return {
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "level": finding.severity.value,
        "code": finding.code,
        "name": catalogue.get_code(finding.code).slug,
        "message": finding.message,
        "by": finding.reporter,
        "why": finding.why,
        "field": finding.field,
        "document": subject.document,
        "object": {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name},
        "source": subject.origin,
    }
