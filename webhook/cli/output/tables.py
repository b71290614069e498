"""Tables and paragraphs of text, and the output to a terminal or a pipe in every format."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click
import msgspec
import yaml
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tallygate.webhook.cli.framework import DATA_FORMATS
from tallygate.webhook.cli.output import ci_formats
from tallygate.webhook.cli.output.findings import Finding, FindingSeverity, RunSummary, findings_to_dict, format_summary

_CONTROL_CHARACTERS = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160)), "\ufffd")
_SEVERITY_STYLES = {FindingSeverity.ERROR: "bold red", FindingSeverity.WARNING: "yellow", FindingSeverity.NOTE: "cyan"}


def escape_control(text: str) -> str:
    """Return a text whose control characters are replaced, so that a terminal only displays it."""
    return text.translate(_CONTROL_CHARACTERS)


def create_finding_table(findings: Sequence[Finding]) -> Table:
    """Return one row per finding, for pipes; successive findings about one object name it once."""
    cells, previous = [], ""
    for finding in findings:
        subject = _format_subject(finding)
        cells.append(
            (finding.location, finding.severity.value, subject if subject != previous else "", _format_message(finding))
        )
        previous = subject
    return create_table(("WHERE", "LEVEL", "OBJECT", "FINDING"), cells)


def format_findings(findings: Sequence[Finding]) -> Group:
    """Return one paragraph per finding, for terminals of any width: location, severity, object, then the message."""
    return Group(*(part for finding in findings for part in _format_finding(finding)))


def _format_finding(finding: Finding) -> tuple[Text, Padding]:
    severity = (finding.severity.value, _SEVERITY_STYLES[finding.severity])
    location = [(f"{escape_control(finding.location)}  ", "bold")] if finding.line else []
    heading = Text.assemble(*location, severity, "  ", (_format_subject(finding), "dim"), overflow="fold")
    return heading, Padding(_format_message(finding), (0, 0, 0, 4))


def create_table(headers: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Return a table with a header and without lines; wide cells are folded, never cut."""
    rich_table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in headers:
        rich_table.add_column(title, overflow="fold")
    for row in rows:
        rich_table.add_row(*(Text(escape_control(cell)) if isinstance(cell, str) else cell for cell in row))
    return rich_table


def align_rows(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as plain lines, never folded: for many rows, since `create_table` prints only 3,000 a second."""
    cells = [headers, *([escape_control(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _format_subject(finding: Finding) -> str:
    origin = f" from {finding.subject.origin}" if finding.subject.origin else ""
    return escape_control(f"{finding.subject}{origin}")


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
    """Print a table or a text to stdout, without trailing blanks."""
    output = create_console(sys.stdout)
    with output.capture() as captured:
        output.print(content)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=output.is_terminal)


def print_data(content: Any, output_format: str) -> None:
    """Print plain data as JSON or YAML."""
    if output_format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=2**31), nl=False)


def print_findings(findings: Sequence[Finding], run_summary: RunSummary, output_format: str) -> None:
    """Print findings to stdout in one format, and the summary to stderr if the format has no place for it."""
    match output_format:
        case "table":
            if findings:
                terminal = create_console(sys.stdout).is_terminal
                print_content(format_findings(findings) if terminal else create_finding_table(findings))
        case "github":
            for line in ci_formats.format_github(findings):
                click.echo(line)
        case "sarif":
            from importlib.metadata import version  # noqa: PLC0415  an eighth of what a small command takes to start

            print_data(ci_formats.create_sarif(findings, version("tallygate")), "json")
        case _:
            print_data(findings_to_dict(findings, run_summary), output_format)
    if output_format not in DATA_FORMATS[1:]:
        for line in format_summary(run_summary, findings):
            click.echo(line, err=True)
