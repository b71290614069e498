"""Tables and paragraphs of text, and the output to a terminal or a pipe in every format."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import click
import msgspec
import yaml
from rich.console import Console, Group, RenderableType
from rich.text import Text

from tallygate.webhook.cli.framework import DATA_FORMATS
from tallygate.webhook.cli.output import ci_formats
from tallygate.webhook.cli.output.findings import Finding, FindingSeverity, RunSummary, findings_to_dict, format_summary
from tallygate.webhook.cli.output.fitted_table import FittedTable, Paragraph

API_VERSION = "tallygate.dev/v1"
"""The version of all output as JSON and YAML (docs/commands.md)."""

_CONTROL_CHARACTERS = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160)), "\ufffd")
_SEVERITY_STYLES = {FindingSeverity.ERROR: "bold red", FindingSeverity.WARNING: "yellow", FindingSeverity.NOTE: "cyan"}


def escape_control(text: str) -> str:
    """Return a text whose control characters are replaced, so that a terminal only displays it."""
    return text.translate(_CONTROL_CHARACTERS)


def create_finding_table(findings: Sequence[Finding]) -> FittedTable:
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


def _format_finding(finding: Finding) -> tuple[Paragraph, Paragraph]:
    severity = (finding.severity.value, _SEVERITY_STYLES[finding.severity])
    location = [(f"{escape_control(finding.location)}  ", "bold")] if finding.line else []
    heading = Text.assemble(*location, severity, "  ", (_format_subject(finding), "dim"))
    return Paragraph(heading), Paragraph(_format_message(finding), 4)


def create_table(
    headers: Sequence[str], rows: Iterable[Sequence[str | Text]], droppable: Sequence[str] = ()
) -> FittedTable:
    """Return a table with a header and without lines; a narrow terminal shows it without the droppable columns."""
    cells = [[Text(escape_control(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return FittedTable(headers, cells, droppable)


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
    """Print a table or a text to stdout, without trailing blanks; a name that is wider than the terminal is not cut."""
    output = create_console(sys.stdout)
    with output.capture() as captured:
        output.print(content, crop=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=output.is_terminal)


def print_list(kind: str, items: Sequence[Any], output_format: str, **others: Any) -> None:
    """Print a list of a stable kind, with other fields beside its items, as JSON or YAML."""
    print_object(f"{kind}List", {"items": list(items), **others}, output_format)


def print_object(kind: str, content: Mapping[str, Any], output_format: str) -> None:
    """Print an object of a stable kind as JSON or YAML. A change of the meaning of a key is a new version."""
    print_data({"apiVersion": API_VERSION, "kind": kind, **content}, output_format)


def print_data(content: Any, output_format: str) -> None:
    """Print plain data as JSON or YAML, in the format of another program."""
    if output_format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=2**31), nl=False)


def print_findings(kind: str, findings: Sequence[Finding], run_summary: RunSummary, output_format: str) -> None:
    """Print findings to stdout in one format, and the summary to stderr if the format has no place for it.

    `kind` is the kind of the report as JSON or YAML.
    """
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
            print_object(kind, findings_to_dict(findings, run_summary), output_format)
    if output_format not in DATA_FORMATS[1:]:
        for line in format_summary(run_summary, findings):
            click.echo(line, err=True)
