"""The loading of scenario files, and their schema with its string formats.

Of this package, only this module reads files; manifests and policies are read by their own packages.
"""

import json
import os
import stat
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from tallygate.cli.scenarios.scenario import MAX_PODS, Scenario
from tallygate.cli.scenarios.scenario_builder import build_scenario
from tallygate.documents.syntax_tree import Mapping, Node, Scalar
from tallygate.manifests.findings import STDIN_NAME
from tallygate.manifests.manifest_files import STDIN, find_files, format_file_name
from tallygate.policy.formats import FORMAT_CHECKS, NUMBER_CHECKS, FormatError, create_format_checker, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.parse import MAX_FILE_BYTES, is_foreign, is_policy, read_policy_text
from tallygate.policy.policy_codes import BAD_LENGTH, BAD_QUANTITY, BAD_TIME, TOO_LARGE, UNREADABLE
from tallygate.policy.scalar_checks import check_ambiguous_numbers
from tallygate.policy.schema import DocumentSchema, check_shape
from tallygate.policy.suggest import find_nearest
from tallygate.policy.times import TimeError, parse_time
from tallygate.server.settings.value_types import DurationError, parse_duration

SCHEMA_FILE = "schema.json"


MAX_WAIT_SECONDS: Final = 86_400.0
"""The maximum seconds of one wait."""

MAX_SCENARIOS: Final = 2_000
MAX_FINDINGS: Final = 200


@cache
def get_scenario_language() -> DocumentSchema:
    schema = json.loads(files("tallygate.cli.scenarios").joinpath(SCHEMA_FILE).read_text(encoding="utf-8"))
    return DocumentSchema(
        schema,
        create_format_checker(_TEXT_CHECKS, {**NUMBER_CHECKS, "count": _check_count}),
        required_head="apiVersion: v1 and kind: Pod, say",
        document_form="a scenario must be a mapping with name and steps; `tallygate test --help` shows one",
    )


def _check_path(text: str) -> None:
    if not (text.strip() and text.isprintable()):
        raise FormatError(UNREADABLE, f"{quote_text(text)!a} is not a path; write one as in ../caps.yaml")


def _check_count(text: str) -> None:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_PODS)) or int(text) > MAX_PODS:
        raise FormatError(
            BAD_QUANTITY, f"{quote_text(text)} is not a number of pods here; write one from 0 to {MAX_PODS}"
        )


def _check_duration(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise FormatError(BAD_QUANTITY, str(error)) from error
    if seconds > MAX_WAIT_SECONDS:
        raise FormatError(BAD_LENGTH, f"{quote_text(text)} is longer than 24h, which is all that one step waits")


def _check_time(text: str) -> None:
    try:
        parse_time(text)
    except TimeError as error:
        raise FormatError(BAD_TIME, f"{quote_text(text)} is not a time: {error}") from error


def _check_cidr(text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError:
        message = f"{quote_text(text)} is not a range of addresses; write one as in 10.1.2.0/26"
        raise FormatError(BAD_QUANTITY, message) from None


_TEXT_CHECKS: Final = {
    **FORMAT_CHECKS,
    "path": _check_path,
    "duration": _check_duration,
    "time": _check_time,
    "cidr": _check_cidr,
}
"""The formats of texts: those of policies, and of scenarios."""


@dataclass(slots=True)
class _LoadedScenarios:
    """The scenarios in the order of the files, and the problems; one problem prevents the run of every scenario."""

    scenarios: list[Scenario] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    files: int = 0


def load_scenarios(arguments: tuple[str, ...]) -> _LoadedScenarios:
    """Read every file; a broken file does not hide the problems of the others, and what is no scenario is skipped.

    Of a folder these are policies and documents of other tools, of a file that is named policies alone.
    """
    loaded = _LoadedScenarios()
    for name in find_files(arguments):
        if len(loaded.scenarios) > MAX_SCENARIOS or len(loaded.findings) > MAX_FINDINGS:
            break
        _read_file(name, loaded, is_named=name in arguments)
    if len(loaded.scenarios) > MAX_SCENARIOS:
        loaded.findings.append(
            _create_finding("", TOO_LARGE, f"more than {MAX_SCENARIOS:,} scenarios; test them in parts")
        )
    for argument in arguments if not (loaded.scenarios or loaded.findings) else ():
        advice = (
            "no scenario here; put a file named *.yaml into it"
            if os.path.isdir(argument)  # noqa: PTH112  # a name may be any bytes
            else "no scenario in this file, only policies; name a file of scenarios, or the folder that has both"
        )
        loaded.findings.append(_create_finding(argument, UNREADABLE, advice))
    return loaded


def _is_of_another_tool(document: Node) -> bool:
    """Return whether a document is neither a scenario nor a policy, correct or not: it has no field of a scenario."""
    if not is_foreign(document):
        return False
    names = [entry.name for entry in document.entries] if isinstance(document, Mapping) else []
    fields = get_scenario_language().schema["properties"]
    return not any(find_nearest(name, fields) for name in names)


def _read_file(name: str, loaded: _LoadedScenarios, *, is_named: bool) -> None:
    printable_name = STDIN_NAME if name == STDIN else format_file_name(name)
    content = _read_bytes(name)
    if isinstance(content, LintFinding):
        loaded.findings.append(content)
        return
    documents, findings = read_policy_text(printable_name, content)
    loaded.findings += findings
    nonempty = [
        document_node
        for document_node in documents
        if not (isinstance(document_node, Scalar) and document_node.value is None)
    ]
    if not nonempty and not findings:
        loaded.findings.append(
            _create_finding(printable_name, UNREADABLE, "no scenario in it; write one with name and steps")
        )
    reported = {(finding.line, finding.column) for finding in findings}
    scenarios = [
        document
        for document in nonempty
        if not (is_policy(document) or (not is_named and _is_of_another_tool(document)))
    ]
    if scenarios or not nonempty:
        loaded.files += 1
    for document in scenarios:
        _add_document(printable_name, document, reported, loaded)


def _add_document(name: str, document: Node, reported: set[tuple[int, int]], loaded: _LoadedScenarios) -> None:
    """Add the scenario or the problems of a document; a position that has a finding already gets no second one."""
    shape_findings = check_shape(name, document, get_scenario_language())
    ambiguities = (replace(number, severity=Severity.ERROR) for number in check_ambiguous_numbers(name, document))
    loaded.findings += sorted(
        {*(finding for finding in shape_findings if (finding.line, finding.column) not in reported), *ambiguities}
    )
    if isinstance(document, Mapping) and not shape_findings:
        scenario, findings = build_scenario(name, document)
        loaded.findings += sorted(findings)
        loaded.scenarios += [scenario] if scenario is not None else []


def _read_bytes(name: str) -> bytes | LintFinding:
    if name == STDIN:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116  # a name may be any bytes
            return _create_finding(name, UNREADABLE, "not a regular file; scenarios are files and folders of files")
        with Path(name).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return _create_finding(name, UNREADABLE, f"cannot be read: {reason}; check that it is there and readable")


def _create_finding(name: str, code: str, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(format_file_name(name), 1, 1), code, Severity.ERROR, message)
