"""The action for other repositories: its last step, as a runner would run it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_ACTION: dict[str, Any] = yaml.safe_load((_ROOT / ".github/actions/check/action.yml").read_text(encoding="utf-8"))
_CHECK = _ACTION["runs"]["steps"][-1]
_GOOD = "e2e/manifests/one-dongle.yaml"
_BAD = "e2e/manifests/half.yaml"
_WARNED = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fours, annotations: {tallygate.dev/why: four fit on a board}}
spec: {resources: ["*/*"], enforcement: warn, checks: {perContainer: {oneOf: [4]}}}
"""


def run_check(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step with these inputs, and with the defaults of the others."""
    program = folder / "tallygate" / "bin" / "tallygate"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tallygate.cli "$@"\n')
    program.chmod(0o755)
    given = {name: inputs.get(name, described.get("default", "")) for name, described in _ACTION["inputs"].items()}
    environment = {name.upper(): value for name, value in given.items()}
    assert _CHECK["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in given}
    return subprocess.run(  # noqa: S603  the step of the action
        ["/bin/bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", _CHECK["run"]],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "RUNNER_TEMP": str(folder), **environment},
    )


def test_paths_may_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    done = run_check(tmp_path, paths=f"{_GOOD}\n{_BAD}\n")
    assert done.returncode == 1
    assert f"::error file={_BAD},line=" in done.stdout
    assert f"file={_GOOD}" not in done.stdout


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 1)])
def test_warnings_of_own_policies_fail_if_strict(tmp_path: Path, strict: str, code: int) -> None:
    policy = tmp_path / "warned.yaml"
    policy.write_text(_WARNED)
    done = run_check(tmp_path, paths=_GOOD, policies=str(policy), strict=strict)
    assert (done.returncode, "::warning file=" in done.stdout) == (code, True), done.stdout + done.stderr


def test_a_path_is_no_option(tmp_path: Path) -> None:
    done = run_check(tmp_path, paths="--help")
    assert (done.returncode, "file=--help," in done.stdout) == (2, True), done.stdout
