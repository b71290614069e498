"""Findings as GitHub workflow commands, which put them beside the line in a pull request.

Format: "Workflow commands for GitHub Actions", setting an error, warning or notice message; escaping as in
actions/toolkit `packages/core/src/command.ts`.
"""

from collections.abc import Sequence

from webhook.cli import catalogue
from webhook.cli.report.finding import Finding, Level

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def lines(findings: Sequence[Finding]) -> list[str]:
    """One command a finding."""
    return [_command(finding) for finding in findings]


def _command(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": str(finding.line),
        "col": str(finding.column),
        "title": f"{finding.code} {catalogue.of(finding.code).slug}",
    }
    written = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
    said = f"{finding.sentence} ({finding.source})"
    return f"::{_COMMANDS[finding.level]} {written}::{said.translate(_DATA)}"
