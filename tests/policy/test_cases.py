"""Every case file says just what it announces: place, severity, code and words of each finding, in this order."""

from pathlib import Path

import pytest

from tests.policy import cases
from webhook.policy.lint_findings import LintFinding
from webhook.policy.lint_policies import lint_policies
from webhook.policy.parse import parse
from webhook.policy.policy_codes import CODES


def _title(path: Path) -> str:
    return path.stem


def _told(findings: tuple[LintFinding, ...]) -> list[tuple[str, str, str, str]]:
    return [(f"{each.line}:{each.column}", str(each.severity), each.code, each.message) for each in findings]


@pytest.mark.parametrize("path", cases.files("parse"), ids=_title)
def test_parsing_finds(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    assert _told(parsed.findings) == cases.expected(path)
    assert {each.file for each in parsed.findings} <= {path.name}


@pytest.mark.parametrize("path", cases.files("lint"), ids=_title)
def test_lint_finds(path: Path) -> None:
    parsed = parse([(path.name, path.read_bytes())])
    assert parsed.findings == ()
    assert _told(lint_policies(parsed.policies)) == cases.expected(path)


def test_every_place_is_where_the_text_at_fault_stands() -> None:
    """A place is a line and column of the file that holds something, never an empty one."""
    for path in (*cases.files("parse"), *cases.files("lint")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for place, _, _, message in cases.expected(path):
            line, column = map(int, place.split(":"))
            assert lines[line - 1][column - 1 :].strip(), f"{path.name}:{place}: {message}"


def test_every_code_has_a_case() -> None:
    announced = {
        code for room in ("parse", "lint") for path in cases.files(room) for _, _, code, _ in cases.expected(path)
    }
    # What cannot be written down as a text file is in test_hostile and test_load.
    elsewhere = {"TG301", "TG302"}
    assert announced | elsewhere == {code.number for code in CODES}


def test_codes_are_numbered_once_and_tell_everything() -> None:
    assert len({code.number for code in CODES}) == len({code.slug for code in CODES}) == len(CODES)
    assert all(code.number.startswith("TG3") for code in CODES)
    assert all(all((code.summary, code.explanation, code.invalid_example, code.valid_example)) for code in CODES)
    assert all(code.summary.endswith(".") and code.explanation.endswith(".") for code in CODES)
