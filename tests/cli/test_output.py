"""The output formats of findings."""

import io
import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from tallygate.answers import code_catalog
from tallygate.answers.code_catalog import Code
from tallygate.cli.output import ci_formats
from tallygate.cli.output.tables import create_console, print_findings
from tallygate.manifests.findings import (
    Finding,
    FindingSeverity,
    FindingSubject,
    RunSummary,
    is_failure,
)
from tests.cli.check_case import CASES, Case
from tests.cli.terminal import run_in_terminal

CASE = Case(CASES / "every_output_format_has_the_same_findings")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
TEXT = st.text(max_size=20)
FINDINGS = st.builds(
    Finding,
    TEXT,
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(FindingSeverity),
    st.sampled_from([code.number for code in code_catalog.list_codes()]),
    TEXT,
    TEXT,
    TEXT,
    st.builds(FindingSubject, st.integers(0, 3), TEXT, TEXT, TEXT, TEXT),
    TEXT,
)
SARIF = Draft4Validator(json.loads((Path(__file__).parent / "sarif" / "sarif-schema-2.1.0.json").read_text()))
"""The official schema."""


@given(st.lists(FINDINGS, max_size=4))
def test_sarif_output_matches_the_official_schema(findings: list[Finding]) -> None:
    """Validate the output for any text, with a rule and its summary for each result."""
    document = json.loads(json.dumps(ci_formats.create_sarif(findings, "1")))
    SARIF.validate(document)
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [each.code for each in findings]
    assert all(rule["shortDescription"]["text"] == code_catalog.get_code(rule["id"]).summary for rule in rules)
    for result in run["results"]:
        (location,) = result["locations"]
        assert re.fullmatch("[A-Za-z0-9_.~/%-]*", location["physicalLocation"]["artifactLocation"]["uri"])


def test_the_official_schema_rejects_another_level() -> None:
    """Check that the schema is applied."""
    document = ci_formats.create_sarif([Finding("f", 1, 1, FindingSeverity.ERROR, "TG101", "m")], "1")
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert [error.json_path for error in SARIF.iter_errors(document)] == ["$.runs[0].results[0].level"]


@pytest.mark.parametrize("code", code_catalog.list_codes(), ids=lambda code: code.number)
def test_the_help_of_every_code_has_closed_fences(code: Code) -> None:
    """Put each fence, and each sentence after an example, on a line of its own."""
    finding = Finding("f", 1, 1, FindingSeverity.ERROR, code.number, "m")
    (rule,) = ci_formats.create_sarif([finding], "1")["runs"][0]["tool"]["driver"]["rules"]
    lines = rule["help"]["markdown"].splitlines()
    assert [line for line in lines if "```" in line] == ["```yaml", "```"] * 2
    assert {f"This gets {code.number}:", "This does not:"} <= set(lines) & set(rule["help"]["text"].splitlines())


@given(st.lists(FINDINGS, max_size=4))
def test_a_workflow_command_is_one_line_that_can_be_unescaped(findings: list[Finding]) -> None:
    """Check that no text ends the command, its properties, or the line."""
    lines = ci_formats.format_github(findings)
    assert len(lines) == len(findings)
    for line, finding in zip(lines, findings, strict=True):
        match = re.fullmatch(r"::(error|warning|notice) ([^\r\n]*?)::([^\r\n]*)", line)
        assert match is not None
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        assert set(properties) == {"file", "line", "col", "title"}
        assert unescape(properties["file"]) == finding.file
        assert unescape(match[3]) == f"{finding.field_message} ({finding.attribution})"


def unescape(text: str) -> str:
    """Return the text that a runner reads."""
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


def test_json_and_yaml_are_the_same_data() -> None:
    """Compare both formats."""
    assert json.loads(CASE.run("json").stdout) == yaml.safe_load(CASE.run("yaml").stdout)


@pytest.mark.parametrize("form", ["json", "yaml", "sarif"])
def test_stdout_has_only_the_data(form: str) -> None:
    """Print no colours, and a summary on stderr only if the format has no field for it."""
    result = CASE.run(form)
    assert yaml.safe_load(result.stdout)
    assert "\x1b" not in result.stdout
    assert bool(result.stderr) == (form == "sarif")


def test_a_pipe_gets_whole_lines_without_colours() -> None:
    """Print one row for each finding, and the summary on stderr."""
    result = CASE.run("table")
    rows = result.stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["WHERE", "manifests/odd,", "manifests/odd,"]
    assert all(row == row.rstrip() for row in rows)
    assert result.stderr == "1 object in 1 file: 1 error, 1 warning\n"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_of_any_width_gets_the_whole_text(columns: int) -> None:
    """Wrap lines at blanks without a loss of text; only a name may be wider than the terminal."""
    text = run_in_terminal(["check", "manifests"], columns, CASE.folder)
    assert "\x1b[" in text
    plain = ESCAPE.sub("", text)
    assert all(len(line) <= columns or len(line.split()) == 1 for line in plain.splitlines())
    for finding in json.loads(CASE.run("json").stdout)["findings"]:
        place = f"{finding['file']}:{finding['line']}:{finding['column']}"
        for part in (place, finding["level"], finding["code"], finding["message"], finding["field"], finding["why"]):
            assert "".join(part.split()) in "".join(plain.split())


def test_a_pipe_gets_one_row_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """Print a message of two lines as one, name an object once, and no control character of a manifest."""
    subject = FindingSubject(0, "Pod", "team-a", "trainer\x1b[2J")
    error = Finding("f", 1, 1, FindingSeverity.ERROR, "TG101", "one\ntwo", subject=subject)
    seen = RunSummary("object", 1, 1)
    seen.skipped_kinds["\x1b[2J"] = 1
    print_findings("CheckReport", [error, error], seen, "table")
    output = capsys.readouterr()
    assert [("one two" in row, "trainer" in row) for row in output.out.splitlines()[1:]] == [
        (True, True),
        (True, False),
    ]
    assert "\x1b" not in output.out + output.err


def test_no_color_switches_colours_off() -> None:
    """Print no colours; other attributes may stay (no-color.org)."""
    text = run_in_terminal(["check", "manifests"], 80, CASE.folder, NO_COLOR="1")
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])[0-9;]*m", text)
    assert "1500m is not a whole number" in ESCAPE.sub("", text).replace("\n    ", " ")


def test_output_to_a_file_is_not_folded() -> None:
    assert create_console(io.StringIO()).width > 1000


def test_a_summary_has_counts() -> None:
    """Use the singular for one, and report skipped objects."""
    seen = RunSummary("policy", file_count=1, item_count=2)
    seen.skipped_kinds.update({"Service": 2, "ConfigMap": 1})
    seen.unread_kinds.update({"RayCluster": 1})
    seen.non_object_count = 1
    seen.notes.append("by the way")
    error = Finding("f", 1, 1, FindingSeverity.ERROR, "TG101", "m")
    assert seen.list_lines([error, error]) == [
        "2 policies in 1 file: 2 errors",
        "1 object not checked, since the kind is not read: RayCluster 1",
        "3 objects of other kinds skipped: ConfigMap 1, Service 2",
        "1 document skipped that is no object of Kubernetes",
        "by the way",
    ]
    assert seen.to_dict([])["policies"] == 2


@pytest.mark.parametrize(
    ("level", "strict", "fails"),
    [
        (FindingSeverity.ERROR, False, True),
        (FindingSeverity.WARNING, False, False),
        (FindingSeverity.WARNING, True, True),
        (FindingSeverity.NOTE, True, False),
    ],
)
def test_the_severity_decides_about_failure(level: FindingSeverity, *, strict: bool, fails: bool) -> None:
    """Fail for errors, for warnings with `--strict`, and never for notes."""
    assert is_failure([Finding("f", 1, 1, level, "TG101", "m")], strict=strict) is fails
