"""Findings, and anything else in rows, as a table for a person."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from webhook.cli.report.finding import Finding, Level

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def findings(found: Sequence[Finding]) -> Table:
    """One row a finding; where two rows in a row are about the same object, it is named once."""
    rows = []
    before = ""
    for finding in found:
        subject = _subject(finding)
        rows.append(
            (
                Text(finding.place, "bold"),
                Text(finding.level.value, _STYLES[finding.level]),
                Text(subject if subject != before else "", "dim"),
                _said(finding),
            )
        )
        before = subject
    return table(("WHERE", "LEVEL", "OBJECT", "FINDING"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Rows beneath a head, without lines; what is too wide is folded, never cut."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in head:
        made.add_column(title, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def _subject(finding: Finding) -> str:
    origin = f" from {finding.subject.origin}" if finding.subject.origin else ""
    return f"{finding.subject}{origin}"


def _said(finding: Finding) -> Text:
    return Text.assemble(finding.sentence, " ", (f"({finding.code}, {finding.source})", "dim"))
