"""`tallygate test` as a command: exit codes, terminals, completion."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.terminal import printed
from tests.cli.test_completion import completed
from webhook.cli.app import root

GOOD = """\
name: fine
steps:
  - create: {pod: a, resources: {nvidia.com/gpu: 1}}
"""
BAD = GOOD.replace("fine", "not so").replace("gpu: 1", "gpu: 0.5")


def play(*arguments: str) -> Result:
    """Run it."""
    return CliRunner().invoke(root, ["test", *arguments])


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (BAD, 1), ("name: [", 2), (f"{GOOD}---\n{BAD}", 1)])
def test_the_exit_code_says_how_it_went(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "a.yaml").write_text(text)
    assert play(str(tmp_path)).exit_code == code


def test_folders_are_searched_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    assert "2 scenarios in 2 files: 2 ok" in play(str(tmp_path)).stderr


def test_one_broken_file_keeps_all_from_being_played(tmp_path: Path) -> None:
    """What was not read might have failed."""
    (tmp_path / "a.yaml").write_text(BAD)
    (tmp_path / "b.yaml").write_text("steps: []\n")
    result = play(str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path}/b.yaml:1:1: error: " in result.stderr


@pytest.mark.parametrize("what", ["gone", "empty/", "/dev/null"])
def test_what_is_no_scenario_is_misuse(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    result = play(str(tmp_path / what))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: " in result.stderr


def test_without_a_path_nothing_is_played() -> None:
    result = play()
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_policies_and_files_are_found_from_where_the_scenario_is(tmp_path: Path) -> None:
    """Whatever folder the command is run in."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}")
    (tmp_path / "cap.yaml").write_text(
        "{apiVersion: tallygate.dev/v1alpha1, kind: NamespaceCap, metadata: {name: a}, spec: {hard: {pods: 0}}}"
    )
    (tmp_path / "tests" / "a.yaml").write_text(
        "{name: a, policies: [../cap.yaml], steps: [{create: {file: ../pod.yaml}, expect: {verdict: denied}}]}"
    )
    assert play(str(tmp_path / "tests")).exit_code == 0


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BAD)
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
    assert colour.search(printed(["test", "a.yaml"], 80, tmp_path))
    assert not colour.search(printed(["test", "a.yaml"], 80, tmp_path, NO_COLOR="1"))
    assert "\x1b" not in play(str(tmp_path)).output


def test_a_name_makes_a_terminal_do_nothing(tmp_path: Path) -> None:
    """Whoever wrote the file may not move our cursor."""
    (tmp_path / "a.yaml").write_text(BAD.replace("not so", '"\\e[2Jgone\\a"'))
    output = play(str(tmp_path)).stdout
    assert "gone" in output
    assert "\x1b" not in output
    assert "\a" not in output


def test_it_is_completed() -> None:
    assert completed("tallygate te", 1) == ["test"]
    assert completed("tallygate test -o y", 3) == ["yaml"]
