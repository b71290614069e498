"""The actions for other repositories: their last steps, as a runner would run them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / ".github" / "actions"
_ACTIONS: dict[str, dict[str, Any]] = {
    path.parent.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(_FOLDER.glob("*/action.yml"))
}
_GOOD = "e2e/manifests/one-dongle.yaml"
_BAD = "e2e/manifests/half.yaml"
_WARNED = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fours, annotations: {tallygate.dev/why: four fit on a board}}
spec: {resources: ["*/*"], enforcement: warn, checks: {perContainer: {oneOf: [4]}}}
"""


_FAILING = """\
name: half a GPU is accepted
steps:
- create: {pod: half, resources: {nvidia.com/gpu: 500m}}
"""


def run_action(action: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of an action with these inputs, and with the defaults of the others."""
    step = _ACTIONS[action]["runs"]["steps"][-1]
    program = folder / "tallygate" / "bin" / "tallygate"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tallygate.cli "$@"\n')
    program.chmod(0o755)
    given = {
        name: inputs.get(name, described.get("default", "")) for name, described in _ACTIONS[action]["inputs"].items()
    }
    environment = {name.upper(): value for name, value in given.items()}
    assert step["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in given}
    return subprocess.run(  # noqa: S603  the step of the action
        ["/bin/bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "RUNNER_TEMP": str(folder), **environment},
    )


def test_paths_may_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    done = run_action("check", tmp_path, paths=f"{_GOOD}\n{_BAD}\n")
    assert done.returncode == 1
    assert f"::error file={_BAD},line=" in done.stdout
    assert f"file={_GOOD}" not in done.stdout


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 1)])
def test_warnings_of_own_policies_fail_if_strict(tmp_path: Path, strict: str, code: int) -> None:
    policy = tmp_path / "warned.yaml"
    policy.write_text(_WARNED)
    done = run_action("check", tmp_path, paths=_GOOD, policies=str(policy), strict=strict)
    assert (done.returncode, "::warning file=" in done.stdout) == (code, True), done.stdout + done.stderr


def test_a_path_is_no_option(tmp_path: Path) -> None:
    done = run_action("check", tmp_path, paths="--help")
    assert (done.returncode, "file=--help," in done.stdout) == (2, True), done.stdout


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 1)])
def test_mistakes_of_policies_stand_beside_their_lines(tmp_path: Path, strict: str, code: int) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "warned.yaml").write_text(_WARNED.replace("*/*", "nvidia.com/gpus"))
    done = run_action("lint", tmp_path, policies=f"policies/default.yaml {tmp_path}/policies/", strict=strict)
    assert done.returncode == code, done.stdout + done.stderr
    assert f"::warning file={tmp_path}/policies/warned.yaml,line=" in done.stdout


def test_failures_of_scenarios_stand_beside_their_steps(tmp_path: Path) -> None:
    failing = tmp_path / "half.yaml"
    failing.write_text(_FAILING)
    done = run_action("test", tmp_path, scenarios=f"policies/examples/tests/fill.yaml\n{failing}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"::error file={failing},line=3,col=3,title=half a GPU is accepted::step 1: ")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("action", _ACTIONS)
def test_every_action_installs_its_own_version(action: str, tmp_path: Path) -> None:
    """Run the step with a Python that only prints how it is called."""
    step = _ACTIONS[action]["runs"]["steps"][-2]
    bin_folder = tmp_path / "tallygate" / "bin"
    bin_folder.mkdir(parents=True)
    for python in (tmp_path / "python", bin_folder / "python"):
        python.write_text('#!/bin/sh\nprintf "%s\\n" "$*"\n')
        python.chmod(0o755)
    environment = {
        "RUNNER_TEMP": str(tmp_path),
        "PYTHON": str(tmp_path / "python"),
        "ACTIONS": str(_FOLDER / action / ".."),
    }
    assert step["env"].keys() == {"PYTHON", "ACTIONS", "EXTRA"}
    for extra, installed in (("", str(_ROOT)), ("cluster", f"{_ROOT}[cluster]")):
        done = subprocess.run(  # noqa: S603  the step of the action
            ["/bin/bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment, "EXTRA": extra},
        )
        venv, install = done.stdout.splitlines()
        assert venv == f"-m venv {tmp_path}/tallygate"
        assert (install.split()[:3], install.split()[-1]) == (["-m", "pip", "install"], installed)
