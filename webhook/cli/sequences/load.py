"""Loading: the files that arguments name, as sequences, and everything that is wrong with them.

The one module of this room that touches files, but for manifests and policies, which their own rooms read.
"""

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from webhook.cli.manifest.files import find, printable
from webhook.cli.sequences.build import build_scenario
from webhook.cli.sequences.language import get_scenario_language
from webhook.cli.sequences.model import Scenario
from webhook.policy.bounds import MAX_FILE_BYTES
from webhook.policy.compose import compose
from webhook.policy.decode import decoded
from webhook.policy.lint_findings import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.nodes import Mapping, Node, Scalar
from webhook.policy.parse import check_ambiguous_numbers
from webhook.policy.policy_codes import TOO_LARGE, UNREADABLE
from webhook.policy.schema import check_shape

MAX_SCENARIOS: Final = 2_000
MAX_FINDINGS: Final = 200


@dataclass(slots=True)
class _LoadedScenarios:
    """What files say: sequences in the order written, and what is wrong, which keeps all of them from being run."""

    scenarios: list[Scenario] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    files: int = 0


def load_scenarios(arguments: tuple[str, ...]) -> _LoadedScenarios:
    """Read every file; one that is broken does not hide the others."""
    loaded = _LoadedScenarios()
    for name in find(arguments):
        if len(loaded.scenarios) > MAX_SCENARIOS or len(loaded.findings) > MAX_FINDINGS:
            break
        loaded.files += 1
        _read_file(name, loaded)
    if len(loaded.scenarios) > MAX_SCENARIOS:
        loaded.findings.append(
            _create_finding("", TOO_LARGE, f"more than {MAX_SCENARIOS:,} sequences; test them in parts")
        )
    for argument in arguments if not loaded.files else ():
        loaded.findings.append(
            _create_finding(argument, UNREADABLE, "no sequence here; put a file named *.yaml into it")
        )
    return loaded


def _read_file(name: str, loaded: _LoadedScenarios) -> None:
    printable_name, content = printable(name), _read_bytes(name)
    text = content if isinstance(content, LintFinding) else decoded(printable_name, content)
    if isinstance(text, LintFinding):
        loaded.findings.append(text)
        return
    documents, findings = compose(printable_name, text)
    loaded.findings += findings
    nonempty = [
        document_node
        for document_node in documents
        if not (isinstance(document_node, Scalar) and document_node.value is None)
    ]
    if not nonempty and not findings:
        loaded.findings.append(_create_finding(name, UNREADABLE, "no sequence in it; write one with name and steps"))
    reported = {(finding.line, finding.column) for finding in findings}
    for document in nonempty:
        _add_document(printable_name, document, reported, loaded)


def _add_document(name: str, document: Node, reported: set[tuple[int, int]], loaded: _LoadedScenarios) -> None:
    """One document; of a value at a place that was told of already, nothing more is said."""
    shape_findings = check_shape(name, document, get_scenario_language())
    ambiguities = (replace(each, severity=Severity.ERROR) for each in check_ambiguous_numbers(name, document))
    loaded.findings += sorted(
        {*(finding for finding in shape_findings if (finding.line, finding.column) not in reported), *ambiguities}
    )
    if isinstance(document, Mapping) and not shape_findings:
        scenario, findings = build_scenario(name, document)
        loaded.findings += sorted(findings)
        loaded.scenarios += [scenario] if scenario is not None else []


def _read_bytes(name: str) -> bytes | LintFinding:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116  # a name may be any bytes
            return _create_finding(name, UNREADABLE, "not a regular file; sequences are files and folders of files")
        with Path(name).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return _create_finding(name, UNREADABLE, f"cannot be read: {reason}; check that it is there and readable")


def _create_finding(name: str, code: str, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(printable(name), 1, 1), code, Severity.ERROR, message)
