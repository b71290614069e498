"""Tables and paragraphs of text, and the output to a terminal or a pipe in every format.

A table fits the terminal and never breaks a name: only blanks become line breaks.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TextIO, TypeVar

import click
import msgspec
import yaml
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from tallygate.answers.columns import API_VERSION, FINDINGS, Columns, escape_control, format_subject
from tallygate.cli.framework import DATA_FORMATS
from tallygate.cli.output import ci_formats
from tallygate.manifests.findings import Finding, FindingSeverity, Summary

R = TypeVar("R")

_GAP = 2
_BENEATH_INDENT = 4
_MIN_TEXT_WIDTH = 24
"""The width below which a text is unreadable next to other columns."""
_WORD = re.compile(r"\S+\s*|\s+")


def wrap_words(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, broken at blanks only; a longer word is a line of its own."""
    return [line for paragraph in text.split("\n", allow_blank=True) for line in _wrap_paragraph(paragraph, width)]


def _wrap_paragraph(paragraph: Text, width: int) -> list[Text]:
    breaks, line_start, plain = [], 0, paragraph.plain
    for match in _WORD.finditer(plain):
        if match.start() > line_start and cell_len(plain[line_start : match.end()].rstrip()) > width:
            line_start = match.start()
            breaks.append(line_start)
    lines = list(paragraph.divide(breaks)) if breaks else [paragraph]
    for line in lines:
        line.rstrip()
    return lines


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text, indented, that is broken at blanks only; `hanging` is the further indent of all lines but the first."""

    text: Text
    indent: int = 0
    hanging: int = 0

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        indent = self.indent
        for line in wrap_words(self.text, options.max_width - self.indent - self.hanging):
            yield _create_line([Text(" " * indent), line])
            indent = self.indent + self.hanging


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table without lines that fits the width of a terminal; its last column is a text, the others are names.

    Where the columns are too wide, those in `droppable` are left out, in this order; then the text stands beneath its
    row, and then the first column above the others. `titles` are lines before the rows of these numbers.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Text]]
    droppable: Sequence[str] = ()
    titles: Mapping[int, Text] = field(default_factory=lambda: MappingProxyType({}))
    indent: int = 0

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines of the header and of the rows."""
        layout = self._fit(options.max_width)
        if any(self.headers):
            yield from layout.render_row([Text(title, "bold") for title in self.headers])
        for number, row in enumerate(self.rows):
            if number in self.titles:
                yield from Paragraph(self.titles[number], 0, _BENEATH_INDENT).__rich_console__(_, options)
            yield from layout.render_row(row)

    def _fit(self, width: int) -> "_Layout":
        widths = [
            max([cell_len(title), *(_measure(row[index]) for row in self.rows)])
            for index, title in enumerate(self.headers)
        ]
        texts = [row[-1] for row in self.rows]
        longest_word = max((cell_len(word) for text in texts for word in text.plain.split()), default=0)
        min_text_width = max(cell_len(self.headers[-1]), longest_word, min(_MIN_TEXT_WIDTH, widths[-1]))
        columns, dropped = list(range(len(self.headers) - 1)), list(self.droppable)
        while dropped and self._measure_columns(columns, widths) + min_text_width > width:
            columns.remove(self.headers.index(dropped.pop(0)))
        columns_width = self._measure_columns(columns, widths)
        text_width = width - columns_width
        if text_width < min_text_width:
            text_width = 0
        is_stacked = not text_width and columns_width - _GAP > width
        return _Layout(columns, widths, self.indent, width, text_width, is_stacked)

    def _measure_columns(self, columns: Sequence[int], widths: Sequence[int]) -> int:
        return self.indent + sum(widths[index] + _GAP for index in columns)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns to show; `text_width` is 0 if the text stands beneath its row."""

    columns: Sequence[int]
    widths: Sequence[int]
    indent: int
    width: int
    text_width: int
    is_stacked: bool

    def render_row(self, cells: Sequence[Text]) -> Iterator[Text]:
        """Yield the lines of a row."""
        columns, indent = self.columns, self.indent
        if self.is_stacked:
            first, *columns = columns
            yield _create_line([Text(" " * indent), cells[first]])
            indent += _GAP
        blocks = [(list(cells[index].split("\n", allow_blank=True)), self.widths[index] + _GAP) for index in columns]
        if self.text_width:
            blocks.append((wrap_words(cells[-1], self.text_width), 0))
        for number in range(max((len(lines) for lines, _ in blocks), default=0)):
            line = [_pad(lines[number] if number < len(lines) else Text(), width) for lines, width in blocks]
            yield _create_line([Text(" " * indent), *line])
        if not self.text_width and cells[-1].plain:
            beneath = self.indent + _BENEATH_INDENT
            for text_line in wrap_words(cells[-1], self.width - beneath):
                yield _create_line([Text(" " * beneath), text_line])


def _measure(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def _pad(text: Text, width: int) -> Text:
    padded = text.copy()
    padded.append(" " * (width - cell_len(text.plain)))
    return padded


def _create_line(parts: Sequence[Text]) -> Text:
    """Return one line, which a terminal gets as it is."""
    line = Text.assemble(*parts)
    line.rstrip()
    line.no_wrap, line.overflow = True, "ignore"
    return line


_BAR_WIDTH = 10
"""The width of a bar in characters."""


def format_bar(used: int, charged: int, total: int) -> str:
    """Return a bar of the used, then the other charged, then the free amount in tenths of a total, full above it."""
    filled, full = (min(_BAR_WIDTH, -(-amount * _BAR_WIDTH // total)) for amount in (used, max(used, charged)))
    return "█" * filled + "▒" * (full - filled) + "░" * (_BAR_WIDTH - full)


_SEVERITY_STYLES = {FindingSeverity.ERROR: "bold red", FindingSeverity.WARNING: "yellow", FindingSeverity.NOTE: "cyan"}


def format_findings(findings: Sequence[Finding]) -> Group:
    """Return one paragraph per finding, for terminals of any width: location, severity, object, then the message."""
    return Group(*(part for finding in findings for part in _format_finding(finding)))


def _format_finding(finding: Finding) -> tuple[Paragraph, Paragraph]:
    severity = (finding.severity.value, _SEVERITY_STYLES[finding.severity])
    location = [(f"{escape_control(finding.location)}  ", "bold")] if finding.line else []
    heading = Text.assemble(*location, severity, "  ", (format_subject(finding), "dim"))
    return Paragraph(heading), Paragraph(_format_message(finding), 4)


def create_table(
    headers: Sequence[str], rows: Iterable[Sequence[str | Text]], droppable: Sequence[str] = ()
) -> FittedTable:
    """Return a table with a header and without lines; a narrow terminal shows it without the droppable columns."""
    cells = [[Text(escape_control(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return FittedTable(headers, cells, droppable)


def _format_message(finding: Finding) -> Text:
    return Text.assemble(
        escape_control(finding.field_message), " ", (escape_control(f"({finding.code}, {finding.attribution})"), "dim")
    )


_PIPE_WIDTH = 10_000
"""The width of a pipe in columns: every row stays on one line, for grep and awk."""


def create_console(stream: TextIO) -> Console:
    """Return a console for a stream: colours on a terminal unless NO_COLOR is set, full width in a pipe."""
    terminal = Console(file=stream, highlight=False, markup=False)
    return terminal if terminal.is_terminal else Console(file=stream, highlight=False, markup=False, width=_PIPE_WIDTH)


def print_content(content: RenderableType) -> None:
    """Print a table or a text to stdout, without trailing blanks; a name that is wider than the terminal is not cut."""
    output = create_console(sys.stdout)
    with output.capture() as captured:
        output.print(content, crop=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=output.is_terminal)


def print_list(
    kind: str, items: Iterable[Any], output_format: str, print_text: Callable[[], object], **others: Any
) -> None:
    """Print a list of a stable kind, with other fields besides its items, as `print_object` does."""
    print_object(f"{kind}List", lambda: {"items": list(items), **others}, output_format, print_text)


def print_object(
    kind: str, convert: Callable[[], Mapping[str, Any]], output_format: str, print_text: Callable[[], object]
) -> None:
    """Print an object of a stable kind for people by `print_text`, or as JSON or YAML with the fields by `convert`.

    A change of the meaning of a key is a new version.
    """
    if output_format == DATA_FORMATS[0]:
        print_text()
    else:
        print_data({"apiVersion": API_VERSION, "kind": kind, **convert()}, output_format)


def print_data(content: Any, output_format: str) -> None:
    """Print plain data as JSON or YAML, in the format of another program."""
    if output_format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=2**31), nl=False)


def print_records(  # a list, its columns and its forms
    columns: Columns[R],
    kind: str,
    records: Sequence[R],
    output_format: str,
    print_text: Callable[[], object] | None = None,
    **others: Any,
) -> None:
    """Print records of a kind as a table or by `print_text`, or with other fields as JSON or YAML."""
    print_text = print_text or (lambda: print_content(create_table(columns.headings, columns.list_rows(records))))
    print_list(kind, map(columns.to_dict, records), output_format, print_text, **others)


def print_findings(
    kind: str,
    findings: Sequence[Finding],
    summary: Summary,
    output_format: str,
    columns: Columns[Finding] = FINDINGS,
) -> None:
    """Print findings to stdout in one format, and the summary to stderr if the format has no place for it.

    `kind` is the kind of the report as JSON or YAML. A terminal gets a paragraph for each finding.
    """

    def convert() -> dict[str, Any]:
        return {"findings": list(map(columns.to_dict, findings)), "summary": summary.to_dict(findings)}

    match output_format:
        case "github":
            for line in ci_formats.format_github(findings):
                click.echo(line)
        case "sarif":
            from importlib.metadata import version  # noqa: PLC0415  an eighth of what a small command takes to start

            print_data(ci_formats.create_sarif(findings, version("tallygate")), "json")
        case _:
            print_object(kind, convert, output_format, lambda: print_finding_table(findings, columns))
    if output_format not in DATA_FORMATS[1:]:
        for line in summary.list_lines(findings):
            click.echo(escape_control(line), err=True)


def print_finding_table(findings: Sequence[Finding], columns: Columns[Finding] = FINDINGS) -> None:
    """Print findings for people: a paragraph each on a terminal, else a table; nothing without findings."""
    if findings and create_console(sys.stdout).is_terminal:
        print_content(format_findings(findings))
    elif findings:
        click.echo(columns.align(findings))
