"""Writing: what goes to the terminal or the pipe, and in which of the forms."""

import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click
import msgspec
import yaml
from rich.console import Console, RenderableType

from webhook.cli.report import data, github, sarif, summary, table
from webhook.cli.report.finding import Finding
from webhook.cli.report.summary import RunSummary

FINDING_FORMATS = ("table", "json", "yaml", "github", "sarif")
DATA_FORMATS = ("table", "json", "yaml")
_PIPE_WIDTH = 10_000
"""Columns of what is no terminal: wide enough that every row stays one line, for grep and awk."""


def create_console(stream: TextIO) -> Console:
    """A console for a stream: colours on a terminal unless NO_COLOR is set, full width in a pipe."""
    terminal = Console(file=stream, highlight=False, markup=False)
    return terminal if terminal.is_terminal else Console(file=stream, highlight=False, markup=False, width=_PIPE_WIDTH)


def print_content(content: RenderableType) -> None:
    """Print a table or a text to stdout, without the blanks that fill rows up."""
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
    """Print findings to stdout in one form, and the summary to stderr where the form has no place for it."""
    match output_format:
        case "table":
            if findings:
                terminal = create_console(sys.stdout).is_terminal
                print_content(table.format_findings(findings) if terminal else table.create_finding_table(findings))
        case "github":
            for line in github.format_github(findings):
                click.echo(line)
        case "sarif":
            from importlib.metadata import version  # noqa: PLC0415  an eighth of what a small command takes to start

            print_data(sarif.create_sarif(findings, version("tallygate")), "json")
        case _:
            print_data(data.findings_to_dict(findings, run_summary), output_format)
    if output_format not in DATA_FORMATS[1:]:
        for line in summary.format_summary(run_summary, findings):
            click.echo(line, err=True)
