"""Placing: a problem about a field becomes a finding about a line."""

from collections.abc import Sequence

from webhook.cli.checking.merging import Located, Said, merged
from webhook.cli.manifest.locate import locate
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Finding, Subject


def placed(manifest: Manifest, subject: Subject, said: Sequence[Said]) -> list[Finding]:
    """What was said of an object as findings in the order of the file, each mistake once."""
    located = [Located(each, locate(manifest.node, each.problem.field)) for each in said]
    return sorted(_finding(manifest, subject, each) for each in merged(located))


def _finding(manifest: Manifest, subject: Subject, located: Located) -> Finding:
    said, place = located.said, located.spot.place
    problem = said.problem
    return Finding(
        manifest.file,
        place.line,
        place.column,
        said.level,
        problem.code,
        problem.message,
        said.by,
        problem.field,
        subject,
        said.why,
    )
