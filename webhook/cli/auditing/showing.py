"""How what an audit has found is printed."""

import sys
from importlib.metadata import version
from typing import Any

import click

from webhook.audit.audit import AuditResult
from webhook.audit.finding import AuditFinding as Audited
from webhook.audit.reports import ReportCounts
from webhook.cli.report import data, sarif, table, write
from webhook.cli.report.finding import Finding, Level, Subject
from webhook.policy.model import Enforcement

FORMATS = ("table", "json", "yaml", "sarif")
_LEVELS = {Enforcement.DENY: Level.ERROR, Enforcement.WARN: Level.WARNING, Enforcement.AUDIT: Level.NOTE}
_OF_FILES = frozenset({"file", "line", "column", "document", "source"})
_HEAD = ("LEVEL", "OBJECT", "FINDING")


def show(outcome: AuditResult, remarks: list[str], written: ReportCounts | None, form: str) -> None:
    """Print findings to stdout, and the summary to stderr where the form has no place for it."""
    findings = [_finding(each) for each in outcome.findings.list_all()]
    if form in write.DATA_FORMATS[1:]:
        content = {"findings": [_data(each) for each in findings], "summary": _summary(outcome, remarks, written)}
        write.show_data(content, form)
        return
    if form == "sarif":
        write.show_data(sarif.document(findings, version("tallygate")), "json")
    elif findings:
        _table(findings)
    for line in sentences(outcome, remarks, written):
        click.echo(table.harmless(line), err=True)


def sentences(outcome: AuditResult, remarks: list[str], written: ReportCounts | None) -> list[str]:
    """The summary for a person; what was found comes first, what was not looked at behind it."""
    counts, looked = outcome.findings.count_by_enforcement(), outcome.coverage
    found = ", ".join(_count(counts[each], level.value) for each, level in _LEVELS.items() if counts[each])
    where = f"{_count(looked.evaluated.total(), 'object')} in {_count(outcome.namespace_count, 'namespace')}"
    lines = [f"{where}: {found or 'nothing found'}"]
    if left := _left_out(outcome):
        lines.append(f"{left} more are counted and not shown: narrow it by --namespace")
    if looked.excluded:
        names = ", ".join(sorted(looked.excluded))
        lines.append(f"{_count(looked.excluded.total(), 'object')} not judged where the gate is not asked: {names}")
    over = [(looked.ended, "pod that has ended", "pods that have ended")]
    over.append((looked.idle, "ReplicaSet or Job that makes no pods", "ReplicaSets and Jobs that make no pods"))
    over_said = [f"{number} {one if number == 1 else many}" for number, one, many in over if number]
    if over_said:
        lines.append(f"left out: {', '.join(over_said)}")
    if looked.unreadable:
        lines.append(f"{_count(looked.unreadable, 'object')} could not be read")
    return [*lines, *remarks, *looked.remarks, *(_of_reports(written) if written is not None else ())]


def _of_reports(written: ReportCounts) -> list[str]:
    parts = (f"{written.written} written", f"{written.unchanged} unchanged", f"{written.removed} removed")
    said = f"reports ({written.api}): {', '.join(parts)}"
    more = written.failed - len(written.failures)
    tail = [f"{more} more could not be written"] if more else []
    return [f"{said}, {written.failed} failed" if written.failed else said, *written.failures, *tail]


def _left_out(outcome: AuditResult) -> int:
    return outcome.findings.count_by_enforcement().total() - len(outcome.findings.list_all())


def _table(findings: list[Finding]) -> None:
    if write.console(sys.stdout).is_terminal:
        write.show(table.paragraphs(findings))
        return
    rows = ((each.level.value, str(each.subject), f"{each.sentence} ({each.code}, {each.source})") for each in findings)
    click.echo("\n".join(table.aligned(_HEAD, rows)))


def _finding(found: Audited) -> Finding:
    subject, problem = found.subject, found.problem
    return Finding(
        "",
        0,
        0,
        _LEVELS[found.enforcement],
        problem.code,
        found.message,
        f"{problem.policy_kind} {problem.rule}",
        problem.field,
        Subject(0, subject.kind, subject.namespace, subject.name),
        found.policy_reason,
    )


def _data(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in data.of_finding(finding).items() if name not in _OF_FILES}


def _summary(outcome: AuditResult, remarks: list[str], written: ReportCounts | None) -> dict[str, Any]:
    counts, looked = outcome.findings.count_by_enforcement(), outcome.coverage
    summary: dict[str, Any] = {
        "objects": dict(sorted(looked.evaluated.items())),
        "namespaces": outcome.namespace_count,
        **{f"{level.value}s": counts[each] for each, level in _LEVELS.items()},
        "notShown": _left_out(outcome),
        "notAsked": dict(sorted(looked.excluded.items())),
        "ended": looked.ended,
        "idle": looked.idle,
        "unreadable": looked.unreadable,
        "remarks": [*remarks, *looked.remarks],
    }
    if written is not None:
        summary["reports"] = {
            "api": written.api,
            "written": written.written,
            "unchanged": written.unchanged,
            "removed": written.removed,
            "failed": written.failed,
            "failures": written.failures,
        }
    return summary


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
