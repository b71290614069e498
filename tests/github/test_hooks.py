"""The hooks for pre-commit: each run as pre-commit runs it, in a repository with policies, scenarios and manifests.

pre-commit runs a hook if one of the changed files is matched by `files` and `types_or`. It calls `entry` and `args`,
and adds these files unless `pass_filenames` is false.
"""

import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.check_case import change_directory

_ROOT = Path(__file__).parents[2]
_HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load((_ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus, annotations: {tallygate.dev/why: agreed with the teams}}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 4}}
"""
_SAME_NAME = _CAP.replace("4}}", "8}}")
_SCENARIO = """\
name: a team has four GPUs
policies: [../gpus.yaml]
namespaces: {team-a: {}}
steps:
- create: {pod: one, resources: {nvidia.com/gpu: 4}}
- create: {pod: two, resources: {nvidia.com/gpu: 1}}
  expect: {verdict: denied}
"""
_MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder with a cap, its scenario and a manifest."""
    for name, text in (("policies/gpus.yaml", _CAP), ("policies/tests/gpus.yaml", _SCENARIO), ("pod.yaml", _MANIFEST)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run_hook(name: str, repository: Path, changed: Sequence[str]) -> int | None:
    """Run a hook for these changed files, and return its exit code; None if no file concerns it."""
    hook = _HOOKS[name]
    assert (hook["language"], hook["types_or"]) == ("python", ["yaml", "json"])
    files = [file for file in changed if re.search(hook.get("files", ""), file) and file.endswith((".yaml", ".json"))]
    if not files:
        return None
    program, *words = shlex.split(hook["entry"])
    assert program == "tallygate"
    with change_directory(repository):
        arguments = [*words, *hook.get("args", []), *(files if hook.get("pass_filenames", True) else [])]
        return CliRunner().invoke(root, arguments).exit_code


def test_valid_files_pass_every_hook(repository: Path) -> None:
    changed = ["policies/gpus.yaml", "policies/tests/gpus.yaml", "pod.yaml"]
    assert [run_hook("tallygate-check", repository, ["pod.yaml"])] == [0]
    assert [run_hook(name, repository, changed) for name in ("tallygate-lint", "tallygate-test")] == [0, 0]


@pytest.mark.parametrize("name", ["tallygate-lint", "tallygate-test"])
def test_other_files_do_not_run_the_hooks_of_policies(repository: Path, name: str) -> None:
    assert run_hook(name, repository, ["pod.yaml", "src/policies.yaml", "README.md"]) is None


def test_a_half_gpu_in_a_manifest_fails(repository: Path) -> None:
    (repository / "pod.yaml").write_text(_MANIFEST.replace("gpu: 1", "gpu: 500m"))
    assert run_hook("tallygate-check", repository, ["pod.yaml"]) == 1


def test_a_policy_is_linted_with_the_others_of_its_folder(repository: Path) -> None:
    """Find a name that two files have, though one file alone has changed."""
    (repository / "policies" / "second.yaml").write_text(_SAME_NAME)
    assert run_hook("tallygate-lint", repository, ["policies/second.yaml"]) == 1


def test_scenarios_run_where_a_policy_alone_has_changed(repository: Path) -> None:
    (repository / "policies" / "gpus.yaml").write_text(_SAME_NAME)
    assert run_hook("tallygate-test", repository, ["policies/gpus.yaml"]) == 1


def test_the_hook_of_scenarios_installs_what_node_rules_need() -> None:
    """Compare with the extra `cluster`."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    numpy = [each for each in project["optional-dependencies"]["cluster"] if each.startswith("numpy")]
    assert _HOOKS["tallygate-test"]["additional_dependencies"] == numpy
