"""The output of an audit: findings and summary in every format."""

import sys
from importlib.metadata import version
from typing import Any

import click

from tallygate.audit.audit import AuditResult
from tallygate.audit.audit_findings import AuditFinding
from tallygate.audit.report_writer import ReportCounts
from tallygate.cli.framework import DATA_FORMATS
from tallygate.cli.output import ci_formats, tables
from tallygate.cli.output.findings import Finding, FindingSeverity, FindingSubject, finding_to_dict
from tallygate.policy.model import Enforcement

FORMATS = ("table", "json", "yaml", "sarif")
_LEVELS = {
    Enforcement.DENY: FindingSeverity.ERROR,
    Enforcement.WARN: FindingSeverity.WARNING,
    Enforcement.AUDIT: FindingSeverity.NOTE,
}
_FILE_FIELDS = frozenset({"file", "line", "column", "document", "source"})
_HEADER = ("LEVEL", "OBJECT", "FINDING")


def print_findings(
    result: AuditResult, remarks: list[str], report_counts: ReportCounts | None, output_format: str
) -> None:
    """Print findings to stdout, and the summary to stderr if the format has no place for it."""
    findings = [_convert_finding(finding) for finding in result.findings.list_all()]
    if output_format in DATA_FORMATS[1:]:
        content = {
            "findings": [_convert_to_json(finding) for finding in findings],
            "summary": _build_summary(result, remarks, report_counts),
        }
        tables.print_object("AuditReport", content, output_format)
        return
    if output_format == "sarif":
        tables.print_data(ci_formats.create_sarif(findings, version("tallygate")), "json")
    elif findings:
        _print_table(findings)
    for line in list_summary_lines(result, remarks, report_counts):
        click.echo(tables.escape_control(line), err=True)


def list_summary_lines(result: AuditResult, remarks: list[str], report_counts: ReportCounts | None) -> list[str]:
    """Return the lines of the summary: the findings first, then the skipped objects."""
    counts, coverage = result.findings.count_by_enforcement(), result.coverage
    counts_text = ", ".join(
        _format_count(counts[enforcement], level.value) for enforcement, level in _LEVELS.items() if counts[enforcement]
    )
    scope_text = (
        f"{_format_count(coverage.evaluated.total(), 'object')} in {_format_count(result.namespace_count, 'namespace')}"
    )
    lines = [f"{scope_text}: {counts_text or 'nothing found'}"]
    if hidden := _count_hidden(result):
        lines.append(f"{hidden} more are counted and not shown: narrow the audit with --namespace")
    if coverage.excluded:
        names = ", ".join(sorted(coverage.excluded))
        lines.append(
            f"{_format_count(coverage.excluded.total(), 'object')} not evaluated in excluded namespaces: {names}"
        )
    skipped = [(coverage.ended, "pod that has ended", "pods that have ended")]
    skipped.append(
        (coverage.idle, "ReplicaSet or Job that creates no pods", "ReplicaSets and Jobs that create no pods")
    )
    skipped_texts = [
        f"{number} {singular if number == 1 else plural}" for number, singular, plural in skipped if number
    ]
    if skipped_texts:
        lines.append(f"skipped: {', '.join(skipped_texts)}")
    if coverage.unreadable:
        lines.append(f"{_format_count(coverage.unreadable, 'object')} could not be read")
    return [
        *lines,
        *remarks,
        *coverage.remarks,
        *(_list_report_lines(report_counts) if report_counts is not None else ()),
    ]


def _list_report_lines(report_counts: ReportCounts) -> list[str]:
    parts = (
        f"{report_counts.written} written",
        f"{report_counts.unchanged} unchanged",
        f"{report_counts.removed} removed",
    )
    summary = f"reports ({report_counts.api}): {', '.join(parts)}"
    unlisted = report_counts.failed - len(report_counts.failures)
    tail = [f"{unlisted} more could not be written"] if unlisted else []
    return [
        f"{summary}, {report_counts.failed} failed" if report_counts.failed else summary,
        *report_counts.failures,
        *tail,
    ]


def _count_hidden(result: AuditResult) -> int:
    return result.findings.count_by_enforcement().total() - len(result.findings.list_all())


def _print_table(findings: list[Finding]) -> None:
    if tables.create_console(sys.stdout).is_terminal:
        tables.print_content(tables.format_findings(findings))
        return
    rows = (
        (
            finding.severity.value,
            str(finding.subject),
            f"{finding.field_message} ({finding.code}, {finding.attribution})",
        )
        for finding in findings
    )
    click.echo("\n".join(tables.align_rows(_HEADER, rows)))


def _convert_finding(audit_finding: AuditFinding) -> Finding:
    subject, problem = audit_finding.subject, audit_finding.problem
    return Finding(
        "",
        0,
        0,
        _LEVELS[audit_finding.enforcement],
        problem.code,
        audit_finding.message,
        f"{problem.policy_kind} {problem.rule}".rstrip(),
        problem.field,
        FindingSubject(0, subject.kind, subject.namespace, subject.name),
        audit_finding.policy_reason,
    )


def _convert_to_json(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in finding_to_dict(finding).items() if name not in _FILE_FIELDS}


def _build_summary(result: AuditResult, remarks: list[str], report_counts: ReportCounts | None) -> dict[str, Any]:
    counts, coverage = result.findings.count_by_enforcement(), result.coverage
    summary: dict[str, Any] = {
        "objects": dict(sorted(coverage.evaluated.items())),
        "namespaces": result.namespace_count,
        **{f"{level.value}s": counts[enforcement] for enforcement, level in _LEVELS.items()},
        "notShown": _count_hidden(result),
        "excluded": dict(sorted(coverage.excluded.items())),
        "ended": coverage.ended,
        "idle": coverage.idle,
        "unreadable": coverage.unreadable,
        "remarks": [*remarks, *coverage.remarks],
    }
    if report_counts is not None:
        summary["reports"] = {
            "api": report_counts.api,
            "written": report_counts.written,
            "unchanged": report_counts.unchanged,
            "removed": report_counts.removed,
            "failed": report_counts.failed,
            "failures": report_counts.failures,
        }
    return summary


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
