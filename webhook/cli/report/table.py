"""Findings, and anything else in rows, for a person."""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.report.finding import Finding, Level

_CONTROL = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160)), "\ufffd")
_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def harmless(text: str) -> str:
    """A text that makes a terminal do nothing but show it."""
    return text.translate(_CONTROL)


def rows(found: Sequence[Finding]) -> Table:
    """One row a finding, for pipes; where two in a row are about the same object, it is named once."""
    cells, before = [], ""
    for finding in found:
        subject = _subject(finding)
        cells.append((finding.place, finding.level.value, subject if subject != before else "", _said(finding)))
        before = subject
    return table(("WHERE", "LEVEL", "OBJECT", "FINDING"), cells)


def paragraphs(found: Sequence[Finding]) -> Group:
    """One paragraph a finding, for terminals of any width: where, what and whom, and beneath it the sentence."""
    return Group(*(part for finding in found for part in _paragraph(finding)))


def _paragraph(finding: Finding) -> tuple[Text, Padding]:
    level = (finding.level.value, _STYLES[finding.level])
    where = [(f"{harmless(finding.place)}  ", "bold")] if finding.line else []
    head = Text.assemble(*where, level, "  ", (_subject(finding), "dim"), overflow="fold")
    return head, Padding(_said(finding), (0, 0, 0, 4))


def table(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Rows beneath a head, without lines; what is too wide is folded, never cut."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in head:
        made.add_column(title, overflow="fold")
    for row in rows:
        made.add_row(*(Text(harmless(cell)) if isinstance(cell, str) else cell for cell in row))
    return made


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The same as plain lines, which never fold: for very many rows, of which `table` makes three thousand a second."""
    cells = [head, *([harmless(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _subject(finding: Finding) -> str:
    origin = f" from {finding.subject.origin}" if finding.subject.origin else ""
    return harmless(f"{finding.subject}{origin}")


def _said(finding: Finding) -> Text:
    return Text.assemble(harmless(finding.sentence), " ", (harmless(f"({finding.code}, {finding.source})"), "dim"))
