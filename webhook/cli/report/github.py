"""Findings as GitHub workflow commands, which put them beside the line in a pull request.

Format: "Workflow commands for GitHub Actions", setting an error, warning or notice message; escaping as in
actions/toolkit `packages/core/src/command.ts`.
"""

from collections.abc import Sequence

from webhook.cli import catalogue
from webhook.cli.report.finding import Finding, FindingSeverity

_COMMANDS = {FindingSeverity.ERROR: "error", FindingSeverity.WARNING: "warning", FindingSeverity.NOTE: "notice"}
_DATA_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def format_github(findings: Sequence[Finding]) -> list[str]:
    """One command a finding."""
    return [_format_command(finding) for finding in findings]


def _format_command(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": str(finding.line),
        "col": str(finding.column),
        "title": f"{finding.code} {catalogue.get_code(finding.code).slug}",
    }
    text = ",".join(f"{name}={value.translate(_PROPERTY_ESCAPES)}" for name, value in properties.items())
    message = f"{finding.field_message} ({finding.attribution})"
    return f"::{_COMMANDS[finding.severity]} {text}::{message.translate(_DATA_ESCAPES)}"
