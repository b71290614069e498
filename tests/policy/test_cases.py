"""Every case file has its expected findings: position, severity, code and message of each, in order."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tallygate.cli.output.code_catalog import list_codes
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.lint_overrides import lint_ended_overrides
from tallygate.policy.lint_policies import lint_policies
from tallygate.policy.parse import parse
from tests.policy import cases

_NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _title(path: Path) -> str:
    return path.stem


def _describe(findings: tuple[LintFinding, ...]) -> list[tuple[str, str, str, str]]:
    return [(f"{each.line}:{each.column}", str(each.severity), each.code, each.message) for each in findings]


@pytest.mark.parametrize("path", cases.list_files("parse"), ids=_title)
def test_parsing_returns_the_expected_findings(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    assert _describe(parsed.findings) == cases.read_expected_findings(path)
    assert {each.file for each in parsed.findings} <= {path.name}


@pytest.mark.parametrize("path", cases.list_files("lint"), ids=_title)
def test_lint_returns_the_expected_findings(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    assert parsed.findings == ()
    findings = {*lint_policies(parsed.policies), *lint_ended_overrides(parsed.policies, _NOW)}
    assert _describe(tuple(sorted(findings))) == cases.read_expected_findings(path)


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
