"""Placing: a problem about a field becomes a finding about a line."""

from collections.abc import Sequence

from webhook.cli.checking.merging import LocatedProblem, ReportedProblem, merge_problems
from webhook.cli.manifest.locate import locate
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Finding, FindingSubject


def create_findings(manifest: Manifest, subject: FindingSubject, problems: Sequence[ReportedProblem]) -> list[Finding]:
    """What was said of an object as findings in the order of the file, each mistake once."""
    located = [LocatedProblem(each, locate(manifest.node, each.problem.field)) for each in problems]
    return sorted(_create_finding(manifest, subject, each) for each in merge_problems(located))


def _create_finding(manifest: Manifest, subject: FindingSubject, located: LocatedProblem) -> Finding:
    reported, position = located.reported, located.location.place
    problem = reported.problem
    return Finding(
        manifest.file,
        position.line,
        position.column,
        reported.severity,
        problem.code,
        problem.message,
        reported.reporter,
        problem.field,
        subject,
        reported.why,
    )
