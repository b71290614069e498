"""The summary: how much was looked at, and what came of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from webhook.cli.report.finding import Finding, FindingSeverity


@dataclass(slots=True)
class RunSummary:
    """What was looked at. `things` are counted by `noun`; `passed_over` are kinds that nothing is known about."""

    noun: str
    file_count: int = 0
    item_count: int = 0
    skipped_kinds: Counter[str] = field(default_factory=Counter)
    non_object_count: int = 0
    notes: list[str] = field(default_factory=list)


def count_severities(findings: Sequence[Finding]) -> Counter[FindingSeverity]:
    """How many findings there are of each level."""
    return Counter(finding.severity for finding in findings)


def format_summary(run_summary: RunSummary, findings: Sequence[Finding]) -> list[str]:
    """The summary for a person."""
    severity_counts = count_severities(findings)
    counts_text = ", ".join(
        _format_count(severity_counts[severity], severity.value)
        for severity in FindingSeverity
        if severity_counts[severity]
    )
    items = _format_count(run_summary.item_count, run_summary.noun)
    files = _format_count(run_summary.file_count, "file")
    lines = [f"{items} in {files}: {counts_text or 'nothing found'}"]
    if run_summary.skipped_kinds:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(run_summary.skipped_kinds.items()))
        lines.append(
            f"{_format_count(run_summary.skipped_kinds.total(), 'object')} of kinds that ask for nothing "
            f"passed over: {kinds}"
        )
    if run_summary.non_object_count:
        lines.append(
            f"{_format_count(run_summary.non_object_count, 'document')} passed over that no API has: "
            "neither apiVersion nor kind"
        )
    return lines + run_summary.notes


def is_failure(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Whether the findings make the command fail: errors do, under `strict` warnings too."""
    severity_counts = count_severities(findings)
    return bool(severity_counts[FindingSeverity.ERROR] or (strict and severity_counts[FindingSeverity.WARNING]))


def summary_to_dict(run_summary: RunSummary, findings: Sequence[Finding]) -> dict[str, object]:
    """The summary for a program."""
    severity_counts = count_severities(findings)
    return {
        "files": run_summary.file_count,
        f"{run_summary.noun}s" if not run_summary.noun.endswith("y") else "policies": run_summary.item_count,
        **{f"{severity.value}s": severity_counts[severity] for severity in FindingSeverity},
        "passedOver": dict(sorted(run_summary.skipped_kinds.items())),
        "notObjects": run_summary.non_object_count,
        "remarks": run_summary.notes,
    }


def _format_count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"
