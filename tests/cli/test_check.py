"""`tallygate check`: every case on disk gives what it expects.

A change of wording elsewhere may be meant: `python -m tests.cli.record` writes the expectations anew.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.case import Case, cases, expectations, working_in
from webhook.cli.app import root


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_findings(case: Case) -> None:
    """Level, code, speaker and field of each finding, at its very line and column."""
    assert case.findings() == (case.folder / "expected.findings").read_text()


@pytest.mark.parametrize(("case", "form"), expectations(), ids=lambda value: getattr(value, "name", value))
def test_output(case: Case, form: str) -> None:
    """The whole output, byte for byte."""
    assert case.run(form).stdout == (case.folder / f"expected.{form}").read_text()


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
HALF = {**POD, "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}]}}


def check(*arguments: str, text: str = "") -> Result:
    """Run it, with a text on stdin."""
    return CliRunner().invoke(root, ["check", *arguments], input=text)


def test_stdin_is_checked() -> None:
    """Under its own name, beside files."""
    result = check("-o", "json", "-", text=json.dumps(HALF))
    assert result.exit_code == 1
    assert {finding["file"] for finding in json.loads(result.stdout)["findings"]} == {"<stdin>"}


def test_files_keep_the_order_they_are_given_in(tmp_path: Path) -> None:
    """Findings of the first come first, whatever they are called."""
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text(json.dumps(HALF))
    with working_in(tmp_path):
        found = json.loads(check("-o", "json", "b.json", "-", "a.json", text=json.dumps(HALF)).stdout)["findings"]
    assert [finding["file"] for finding in found] == ["b.json", "<stdin>", "a.json"]


@pytest.mark.parametrize(
    ("arguments", "namespace"), [((), "default"), (("-n", "team-a"), "team-a"), (("--namespace", "x"), "x")]
)
def test_objects_without_a_namespace_are_put_in_one(arguments: tuple[str, ...], namespace: str) -> None:
    """As kubectl's own option does."""
    found = json.loads(check("-o", "json", *arguments, "-", text=json.dumps(HALF)).stdout)["findings"]
    assert found[0]["object"] == {"kind": "Pod", "namespace": namespace, "name": "p"}


def test_nodes_are_in_no_namespace() -> None:
    """Whatever is asked for."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"x.org/y": "0.5"}}}
    found = json.loads(check("-o", "json", "-n", "team-a", "-", text=json.dumps(node)).stdout)["findings"]
    assert found[0]["object"] == {"kind": "Node", "namespace": "", "name": "n1"}


@pytest.mark.parametrize("written", ["spec: {}", "kind: ResourceRule\nspec: [", "spec: {resource: [x]}"])
def test_broken_policies_are_misuse(tmp_path: Path, written: str) -> None:
    """Nothing is checked by half a set; every error is told with its place."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(f"apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {{name: r}}\n{written}\n")
    result = check("--policies", str(rule), "-", text=json.dumps(HALF))
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(line.startswith(f"tallygate: {rule}:") for line in result.stderr.splitlines())


def test_policies_that_are_not_there_are_misuse() -> None:
    """A check without them would pass what they refuse."""
    result = check("--policies", "gone", "-", text=json.dumps(HALF))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: gone:1:1: error: cannot be read")


def test_several_policies_are_one_set(tmp_path: Path) -> None:
    """Each given its own `--policies`."""
    for name, most in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.yaml").write_text(
            f"apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {{name: {name}}}\n"
            f"spec: {{resources: [nvidia.com/gpu], checks: {{perContainer: {{max: {most}}}}}}}\n"
        )
    many = {**POD, "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 3}}}]}}
    arguments = [part for name in ("a", "b") for part in ("--policies", str(tmp_path / f"{name}.yaml"))]
    found = json.loads(check("-o", "json", *arguments, "-", text=json.dumps(many)).stdout)["findings"]
    assert {finding["by"] for finding in found} == {"rule a", "rule b"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Missing argument"),
        (("-o", "xml", "-"), "'xml' is not one of"),
        (("--polices", "x", "-"), "No such option"),
    ],
)
def test_wrong_arguments_are_misuse(arguments: tuple[str, ...], sentence: str) -> None:
    """With click's own words."""
    result = check(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_without_a_snapshot_nothing_waits_for_numpy() -> None:
    """It is for pods that are to be placed, and would take as long to load as everything else together."""
    program = "import sys; from webhook.cli.app import root; root(['check', '-'], standalone_mode=False)"
    program += "; sys.exit('numpy' in sys.modules)"
    whole = json.dumps({**POD, "spec": {"containers": [{"name": "a"}]}}).encode()
    done = subprocess.run([sys.executable, "-c", program], input=whole, capture_output=True, check=False)  # noqa: S603  ourselves, no shell
    assert done.returncode == 0, done.stderr
    assert b"1 object in 1 file" in done.stderr
