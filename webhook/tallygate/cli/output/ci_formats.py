"""Findings as GitHub workflow commands and as SARIF 2.1.0.

Workflow commands show findings next to the lines of a pull request. Format: "Workflow commands for GitHub Actions",
setting an error, warning or notice message; escaping as in actions/toolkit `packages/core/src/command.ts`.

Code scanners and editors read SARIF 2.1.0 (OASIS Standard, 27 March 2020).
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tallygate.answers import code_catalog
from tallygate.answers.code_catalog import Code
from tallygate.manifests.findings import STDIN_NAME, Finding, FindingSeverity

_COMMANDS = {FindingSeverity.ERROR: "error", FindingSeverity.WARNING: "warning", FindingSeverity.NOTE: "notice"}
_DATA_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def format_github(findings: Sequence[Finding]) -> list[str]:
    """Return one command per finding."""
    return [_format_finding_command(finding) for finding in findings]


def format_workflow_command(name: str, place: Mapping[str, str], title: str, message: str) -> str:
    """Return a workflow command of GitHub, as in `::error file=a.yaml,line=1,title=TITLE::MESSAGE`.

    `name` is `error`, `warning` or `notice`. `place` has the properties that name a line of a file; it may be empty.
    """
    properties = ",".join(
        f"{key}={value.translate(_PROPERTY_ESCAPES)}" for key, value in (*place.items(), ("title", title))
    )
    return f"::{name} {properties}::{message.translate(_DATA_ESCAPES)}"


def _format_finding_command(finding: Finding) -> str:
    """Return the command of a finding; stdin is no file of the repository, so its template is named, if it has one."""
    message = f"{finding.field_message} ({finding.attribution})"
    if finding.file != STDIN_NAME:
        place = {"file": finding.file, "line": str(finding.line), "col": str(finding.column)}
    else:
        place = {"file": finding.template} if finding.template else {}
        message = f"{finding.location}: {message}"
    title = f"{finding.code} {code_catalog.get_code(finding.code).slug}"
    return format_workflow_command(_COMMANDS[finding.severity], place, title, message)


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def create_sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """Return a log with one run, whose rules are the codes of its findings."""
    numbers = sorted({finding.code for finding in findings})
    driver = {
        "name": "tallygate",
        "version": version,
        "rules": [_create_rule(code_catalog.get_code(number)) for number in numbers],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_create_result(finding, numbers) for finding in findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _create_rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.number,
        "name": "".join(word.capitalize() for word in code.slug.split("-")),
        "shortDescription": {"text": code.summary},
        "fullDescription": {"text": code.explanation},
        "help": {
            "text": f"{code.explanation}\n\nThis gets {code.number}:\n{_end_line(code.invalid_example)}\n"
            f"This does not:\n{_end_line(code.valid_example)}",
            "markdown": f"{code.explanation}\n\nThis gets {code.number}:\n\n{_fence(code.invalid_example)}\n"
            f"This does not:\n\n{_fence(code.valid_example)}",
        },
    }


def _end_line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _fence(text: str) -> str:
    return f"```yaml\n{_end_line(text)}```\n"


def _create_result(finding: Finding, numbers: list[str]) -> dict[str, Any]:
    rendered = f"{finding.location}: " if finding.template else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": numbers.index(finding.code),
        "level": finding.severity.value,
        "message": {"text": f"{rendered}{finding.field_message} ({finding.attribution})"},
        "locations": [_create_location(finding)],
    }


def _create_location(finding: Finding) -> dict[str, Any]:
    """Return the location of a finding; a rendered template has no known line, and code scanners need one."""
    location: dict[str, Any] = {}
    if finding.line:
        line, column = (1, 1) if finding.template else (finding.line, finding.column)
        location["physicalLocation"] = {
            "artifactLocation": {"uri": quote((finding.template or finding.file).replace("\\", "/"))},
            "region": {"startLine": line, "startColumn": column},
        }
    if finding.subject.kind:
        name = f"{finding.subject}: {finding.field}" if finding.field else str(finding.subject)
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "resource"}]
    return location
