"""`tallygate check`: the findings and the output of every case on disk.

After an intended change of messages, `python -m tests.cli.record` records the expected output again.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tests.cli.check_case import Case, change_directory, list_cases, list_expectations
from tests.cli.recorded import check_recorded


@pytest.mark.parametrize("case", list_cases(), ids=lambda case: case.name)
def test_the_findings_are_expected(case: Case) -> None:
    assert case.format_findings() == (case.folder / "expected.findings").read_text()


@pytest.mark.parametrize(
    ("case", "output_format"), list_expectations(), ids=lambda value: getattr(value, "name", value)
)
def test_the_output_is_expected(case: Case, output_format: str) -> None:
    check_recorded(case.folder, case.folder / f"expected.{output_format}", case.run(output_format).stdout)


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
HALF = {**POD, "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}]}}


def check(*arguments: str, text: str = "") -> Result:
    """Run `tallygate check` with a text on stdin."""
    return CliRunner().invoke(root, ["check", *arguments], input=text)


def test_stdin_is_checked() -> None:
    """Report stdin under its own name."""
    result = check("-o", "json", "-", text=json.dumps(HALF))
    assert result.exit_code == 1
    assert {finding["file"] for finding in json.loads(result.stdout)["findings"]} == {"<stdin>"}


def test_files_keep_the_order_they_are_given_in(tmp_path: Path) -> None:
    """List the findings of the first file first."""
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text(json.dumps(HALF))
    with change_directory(tmp_path):
        found = json.loads(check("-o", "json", "b.json", "-", "a.json", text=json.dumps(HALF)).stdout)["findings"]
    assert [finding["file"] for finding in found] == ["b.json", "<stdin>", "a.json"]


@pytest.mark.parametrize(
    ("arguments", "namespace"), [((), "default"), (("-n", "team-a"), "team-a"), (("--namespace", "x"), "x")]
)
def test_objects_without_a_namespace_are_put_in_one(arguments: tuple[str, ...], namespace: str) -> None:
    found = json.loads(check("-o", "json", *arguments, "-", text=json.dumps(HALF)).stdout)["findings"]
    assert found[0]["object"] == {"kind": "Pod", "namespace": namespace, "name": "p"}


def test_nodes_are_in_no_namespace() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"x.org/y": "0.5"}}}
    found = json.loads(check("-o", "json", "-n", "team-a", "-", text=json.dumps(node)).stdout)["findings"]
    assert found[0]["object"] == {"kind": "Node", "namespace": "", "name": "n1"}


@pytest.mark.parametrize("written", ["spec: {}", "kind: ResourceRule\nspec: [", "spec: {resource: [x]}"])
def test_broken_policies_are_a_usage_error(tmp_path: Path, written: str) -> None:
    """Check nothing with an incomplete set, and report every error with its position."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(f"apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {{name: r}}\n{written}\n")
    result = check("--policies", str(rule), "-", text=json.dumps(HALF))
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(line.startswith(f"tallygate: {rule}:") for line in result.stderr.splitlines())


def test_missing_policies_are_a_usage_error() -> None:
    """Refuse to run, since a check without the policies would accept everything."""
    result = check("--policies", "missing", "-", text=json.dumps(HALF))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: missing:1:1: error: cannot be read")


def test_several_policies_are_one_set(tmp_path: Path) -> None:
    """Load the files of every `--policies` option."""
    for name, limit in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.yaml").write_text(
            f"apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {{name: {name}}}\n"
            f"spec: {{resources: [nvidia.com/gpu], checks: {{perContainer: {{max: {limit}}}}}}}\n"
        )
    many = {**POD, "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 3}}}]}}
    arguments = [part for name in ("a", "b") for part in ("--policies", str(tmp_path / f"{name}.yaml"))]
    found = json.loads(check("-o", "json", *arguments, "-", text=json.dumps(many)).stdout)["findings"]
    assert {finding["by"] for finding in found} == {"rule a", "rule b"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name files or folders"),
        (("-o", "xml", "-"), "'xml' is not one of"),
        (("--polices", "x", "-"), "No such option"),
    ],
)
def test_invalid_arguments_are_a_usage_error(arguments: tuple[str, ...], sentence: str) -> None:
    """Print the message of click."""
    result = check(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize("text", ["", "# nothing\n", "replicas: 1\n"])
def test_empty_stdin_is_an_error_unless_it_is_allowed(text: str) -> None:
    """Fail, since a command before the pipe may have failed."""
    result = check("-", text=text)
    assert result.exit_code == 1
    assert "<stdin>:1:1" in result.stdout
    assert "TG412" in result.stdout
    assert check("--allow-empty", "-", text=text).exit_code == 0


def test_an_empty_folder_is_an_error_beside_a_full_one(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "empty").mkdir()
    with change_directory(tmp_path):
        found = json.loads(check("-o", "json", "full", "empty").stdout)["findings"]
    assert [(each["file"], each["code"]) for each in found] == [("empty", "TG412")]


RENDERED = """\
---
# Source: trainer/templates/pod.yaml
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 500m}}}]}
"""


def test_findings_in_a_rendered_chart_name_the_template_for_github() -> None:
    """Put the line of stdin, which is no file of the repository, into the message."""
    (line,) = check("-o", "github", "-", text=RENDERED).stdout.splitlines()
    assert line.startswith(
        "::error file=trainer/templates/pod.yaml,title=TG101 not-whole::<stdin>:6:52: spec.containers"
    )


def test_findings_in_other_stdin_name_no_file_for_github() -> None:
    (line,) = check("-o", "github", "-", text=RENDERED.replace("# Source", "# From")).stdout.splitlines()
    assert line.startswith("::error title=TG101 not-whole::<stdin>:6:52: spec.containers")


def test_findings_in_a_rendered_chart_name_the_template_for_code_scanners() -> None:
    (result,) = json.loads(check("-o", "sarif", "-", text=RENDERED).stdout)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "trainer/templates/pod.yaml"
    assert place["region"] == {"startLine": 1, "startColumn": 1}
    assert result["message"]["text"].startswith("<stdin>:6:52: ")


def test_a_rendered_file_keeps_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "rendered.yaml").write_text(RENDERED)
    with change_directory(tmp_path):
        (line,) = check("-o", "github", "rendered.yaml").stdout.splitlines()
    assert line.startswith("::error file=rendered.yaml,line=6,col=52,")
