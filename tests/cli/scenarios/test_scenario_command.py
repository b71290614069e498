"""The command `tallygate test`: exit codes, terminals, and completion."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.policy.schema import read_schema_text
from tests.cli.terminal import run_in_terminal
from tests.cli.test_completion import complete

GOOD = """\
name: fine
steps:
  - create: {pod: a, resources: {nvidia.com/gpu: 1}}
"""
BAD = GOOD.replace("fine", "not so").replace("gpu: 1", "gpu: 0.5")


def run_test(*arguments: str) -> Result:
    """Run `tallygate test`."""
    return CliRunner().invoke(root, ["test", *arguments])


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (BAD, 1), ("name: [", 2), (f"{GOOD}---\n{BAD}", 1)])
def test_the_exit_code_depends_on_the_result(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "a.yaml").write_text(text)
    assert run_test(str(tmp_path)).exit_code == code


def test_folders_are_searched_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    assert "2 scenarios in 2 files: 2 ok" in run_test(str(tmp_path)).stderr


def test_policies_beside_scenarios_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.yaml").write_text(GOOD)
    (tmp_path / "cap.yaml").write_text("apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n")
    result = run_test(str(tmp_path))
    assert (result.exit_code, "1 scenario in 1 file: 1 ok" in result.stderr) == (0, True)


def test_policies_alone_are_no_scenarios(tmp_path: Path) -> None:
    """Report a missing scenario, since nothing was tested."""
    (tmp_path / "cap.yaml").write_text("apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n")
    result = run_test(str(tmp_path))
    assert result.exit_code == 2
    assert "no scenario here" in result.stderr


def test_a_policy_file_in_the_place_of_scenarios_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "cap.yaml").write_text("apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n")
    result = run_test(str(tmp_path / "cap.yaml"))
    assert result.exit_code == 2
    assert "no scenario in this file, only policies; name a file of scenarios" in result.stderr


def test_documents_of_other_tools_in_the_folder_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "schema.json").write_text(read_schema_text())
    (tmp_path / "kustomization.yaml").write_text("configMapGenerator: []\n")
    result = run_test(str(tmp_path))
    assert (result.exit_code, "1 scenario in 1 file: 1 ok" in result.stderr) == (0, True), result.stderr
    assert run_test(str(tmp_path / "schema.json")).exit_code == 2, "a file that is named is read"


def test_a_scenario_with_a_misspelt_field_is_never_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text("step: []\n")
    assert run_test(str(tmp_path)).exit_code == 2


def test_one_broken_file_prevents_all_runs(tmp_path: Path) -> None:
    """Run nothing, since an unread scenario might fail."""
    (tmp_path / "a.yaml").write_text(BAD)
    (tmp_path / "b.yaml").write_text("steps: []\n")
    result = run_test(str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path}/b.yaml:1:1: error: " in result.stderr


@pytest.mark.parametrize("path", ["missing", "empty/", "/dev/null"])
def test_a_path_without_scenarios_is_a_usage_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    result = run_test(str(tmp_path / path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: " in result.stderr


def test_a_path_is_required() -> None:
    result = run_test()
    assert result.exit_code == 2
    assert "name files or folders" in result.stderr


def test_paths_in_a_scenario_are_relative_to_its_folder(tmp_path: Path) -> None:
    """Ignore the working directory."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}")
    (tmp_path / "cap.yaml").write_text(
        "{apiVersion: tallygate.dev/v1alpha1, kind: NamespaceCap, metadata: {name: a}, spec: {hard: {pods: 0}}}"
    )
    (tmp_path / "tests" / "a.yaml").write_text(
        "{name: a, policies: [../cap.yaml], steps: [{create: {file: ../pod.yaml}, expect: {verdict: denied}}]}"
    )
    assert run_test(str(tmp_path / "tests")).exit_code == 0


def test_only_a_terminal_gets_colours(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BAD)
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
    assert colour.search(run_in_terminal(["test", "a.yaml"], 80, tmp_path))
    assert not colour.search(run_in_terminal(["test", "a.yaml"], 80, tmp_path, NO_COLOR="1"))
    assert "\x1b" not in run_test(str(tmp_path)).output


def test_a_name_sends_no_control_characters(tmp_path: Path) -> None:
    """Replace control characters, which could move the cursor."""
    (tmp_path / "a.yaml").write_text(BAD.replace("not so", '"\\e[2Jmissing\\a"'))
    output = run_test(str(tmp_path)).stdout
    assert "missing" in output
    assert "\x1b" not in output
    assert "\a" not in output


def test_the_command_is_completed() -> None:
    assert complete("tallygate te", 1) == ["test"]
    assert complete("tallygate test -o y", 3) == ["yaml"]
