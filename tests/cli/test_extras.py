"""Installations without extras: the commands that work, and the message of those that do not.

`make package` tries the same with the wheel in clean environments. Here every module of an extra is hidden.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tallygate.cli.app import root
from tallygate.cli.framework import format_installation, format_requirement
from tests.cli.test_command import list_commands

_ROOT = Path(__file__).parents[2]
_EXTRAS = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
_NODE_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: known, annotations: {tallygate.dev/why: a name that no node has is a mistake}}
spec: {resources: ["*/*"], checks: {advertised: true}}
"""
_SCENARIO = """\
name: a name that no node has
policies: [known.yaml]
nodes: {one: {allocatable: {example.com/dongle: 1}}}
steps: [{create: {pod: lost, resources: {example.com/dongles: 1}}, expect: {verdict: denied}}]
"""


def list_modules(extra: str) -> list[str]:
    """Return the modules that an extra installs."""
    names = (re.split(r"[^\w.-]", requirement)[0] for requirement in _EXTRAS[extra])
    return [name.replace("-", "_") for name in names if name != "tallygate"]


def run_without(modules: Iterable[str], *arguments: str, folder: Path = _ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command where these modules cannot be imported."""
    program = f"import sys; sys.modules.update(dict.fromkeys({list(modules)}));"
    program += "from tallygate.cli.app import main; main()"
    run = [sys.executable, "-c", program, *arguments]
    return subprocess.run(run, capture_output=True, text=True, check=False, cwd=folder)  # noqa: S603  ourselves, no shell


NO_CLUSTER: Final = [*list_modules("cluster"), *list_modules("server")]


@pytest.mark.parametrize("command", ["predict", "headroom", "usage", "audit", "compile", "snapshot", "doctor", "certs"])
def test_a_command_of_the_cluster_names_its_extra(command: str) -> None:
    done = run_without(NO_CLUSTER, command, "--whatever", "it", "is")
    needed = rf"tallygate: `tallygate {command}` needs \w+ here, and it is not installed: "
    assert re.fullmatch(needed + r"pip install .*\[cluster\]'\n", done.stderr)
    assert (done.returncode, done.stdout) == (2, "")


_CLUSTER_COMMANDS = (
    "predict",
    "headroom",
    "usage",
    "audit",
    "compile",
    "snapshot",
    "doctor",
    "certs publish",
    "certs status",
)


@pytest.mark.parametrize("command", _CLUSTER_COMMANDS)
def test_a_command_of_the_cluster_works_without_the_gates_extra(command: str) -> None:
    """Give an option that does not exist: the command is imported before it is found."""
    done = run_without(list_modules("server"), *command.split(), "--whatever")
    assert "No such option" in done.stderr
    assert done.returncode == 2


def test_the_gate_names_its_extra() -> None:
    done = run_without(list_modules("server"), "serve")
    needed = r"tallygate: `tallygate serve` needs \w+ here, and it is not installed: "
    assert re.fullmatch(needed + r"pip install .*\[server\]'\n", done.stderr)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("command", [name.split()[1] for name, _ in list_commands(root) if name.count(" ") == 1])
def test_the_help_of_every_command_works_without_any_extra(command: str) -> None:
    done = run_without(NO_CLUSTER, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"tallygate {command}" in done.stdout


def test_a_scenario_whose_rules_compare_pods_with_nodes_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "known.yaml").write_text(_NODE_RULE)
    (tmp_path / "lost.yaml").write_text(_SCENARIO)
    done = run_without(NO_CLUSTER, "test", "lost.yaml", folder=tmp_path)
    needed = r"tallygate: `tallygate test` needs numpy here, and it is not installed: pip install .*\[cluster\]'\n"
    assert re.fullmatch(needed, done.stderr)
    assert done.returncode == 2


def test_a_module_that_no_extra_has_is_an_internal_error() -> None:
    done = run_without(["rich"], "check", "policies")
    assert (done.returncode, "fault of tallygate" in done.stderr) == (70, True)


@pytest.mark.parametrize("module", ["grpc", "google", "structlog", "prometheus_client"])
def test_the_device_plugin_names_its_own_extra(module: str) -> None:
    """Name the extra of the command, also for a module that other extras have, and by the name of its package."""
    done = run_without([module], "device-plugin", "--config", "pyproject.toml", "--check")
    assert done.returncode == 2
    assert f"needs {module} here, and it is not installed: pip install " in done.stderr
    assert "[device-plugin]'" in done.stderr


class _Installed(Distribution):
    def __init__(self, record: object) -> None:
        self._record = record

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return "Metadata-Version: 2.4\nName: tallygate\nVersion: 0.1.0\n"
        return json.dumps(self._record) if self._record and filename == "direct_url.json" else None

    def locate_file(self, path: object) -> NoReturn:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(None, "pip install 'tallygate[cluster]'", id="from an index"),
        pytest.param(
            {"url": "file:///home/me/my%20clone", "dir_info": {}},
            "pip install '/home/me/my clone[cluster]'",
            id="from a clone",
        ),
        pytest.param(
            {"url": "file:///src", "dir_info": {"editable": True}},
            "pip install -e '/src[cluster]'",
            id="from a clone that is edited",
        ),
        pytest.param(
            {"url": "file:///dist/tallygate-0.1.0-py3-none-any.whl", "archive_info": {"hash": "sha256=00"}},
            "pip install 'tallygate[cluster] @ file:///dist/tallygate-0.1.0-py3-none-any.whl'",
            id="from a wheel",
        ),
        pytest.param(
            {"url": "https://example.com/t.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            "pip install 'tallygate[cluster] @ git+https://example.com/t.git@0a1b'",
            id="from a repository",
        ),
    ],
)
def test_the_advice_names_the_source_of_this_installation(record: object, expected: str) -> None:
    assert format_installation("cluster", _Installed(record)) == expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(None, "tallygate==0.1.0", id="from an index"),
        pytest.param({"url": "file:///src", "dir_info": {"editable": True}}, "tallygate==0.1.0", id="from a clone"),
        pytest.param({"url": "file:///dist/t.whl", "archive_info": {}}, "tallygate==0.1.0", id="from a wheel"),
        pytest.param(
            {"url": "https://example.com/t.whl", "archive_info": {}},
            "tallygate @ https://example.com/t.whl",
            id="from an address",
        ),
        pytest.param(
            {"url": "https://example.com/t.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            "tallygate @ git+https://example.com/t.git@0a1b",
            id="from a repository",
        ),
    ],
)
def test_a_requirement_names_a_source_that_is_there_elsewhere(record: object, expected: str) -> None:
    assert format_requirement(_Installed(record)) == expected
