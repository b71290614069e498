"""Every case file has its expected findings: position, severity, code and message of each, in order.

The facts of a message are compared in each case, and a wording in the first one that has it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from tallygate.answers.code_catalog import list_codes
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.lint_overrides import lint_ended_overrides
from tallygate.policy.lint_policies import lint_policies
from tallygate.policy.parse import parse
from tests.policy import cases
from tests.wording import Recorded, Wordings, find_names

_NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _title(path: Path) -> str:
    return path.stem


def _write(findings: Iterable[tuple[str, str, str, str]]) -> str:
    """Return a line for each finding, with a cell for each of its parts."""
    return "\n".join("  ".join(parts) for parts in findings)


def _record(path: Path) -> Recorded:
    return Recorded(path.stem, _write(cases.read_expected_findings(path)), find_names([path.read_text("utf-8")]))


@cache
def _find_wordings() -> Wordings:
    return Wordings([_record(path) for folder in ("parse", "lint") for path in cases.list_files(folder)])


def _check(path: Path, findings: Iterable[LintFinding]) -> None:
    text = _write((f"{each.line}:{each.column}", str(each.severity), each.code, each.message) for each in findings)
    found, wanted = _find_wordings().reduce(_record(path), text)
    assert found == wanted


@pytest.mark.parametrize("path", cases.list_files("parse"), ids=_title)
def test_parsing_returns_the_expected_findings(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    _check(path, parsed.findings)
    assert {each.file for each in parsed.findings} <= {path.name}


@pytest.mark.parametrize("path", cases.list_files("lint"), ids=_title)
def test_lint_returns_the_expected_findings(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    assert parsed.findings == ()
    findings = {*lint_policies(parsed.policies), *lint_ended_overrides(parsed.policies, _NOW)}
    _check(path, sorted(findings))


def test_every_position_points_to_text() -> None:
    """Check that every line and column of a finding is inside a line of the file."""
    for path in (*cases.list_files("parse"), *cases.list_files("lint")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for position, _, _, message in cases.read_expected_findings(path):
            line, column = map(int, position.split(":"))
            assert lines[line - 1][column - 1 :].strip(), f"{path.name}:{position}: {message}"


def test_every_code_has_a_case() -> None:
    tested = {
        code
        for folder in ("parse", "lint")
        for path in cases.list_files(folder)
        for _, _, code, _ in cases.read_expected_findings(path)
    }
    # Input that is not a text file is in test_hostile and test_load.
    elsewhere = {"TG301", "TG302"}
    assert tested | elsewhere == {code.number for code in list_codes() if code.number.startswith("TG3")}
