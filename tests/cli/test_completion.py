"""`tallygate completion`, and the completion of commands, options and codes."""

import io
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tallygate.cli import completions
from tallygate.cli.app import root
from tests.kube.kubeconfig import write_kubeconfig
from tests.state.kubernetes.scripted_api_server import Responder, respond_json, server
from tests.warm import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    """Call the command itself for completions."""
    result = CliRunner().invoke(root, ["completion", shell])
    assert result.exit_code == 0
    assert f"_TALLYGATE_COMPLETE={shell}_complete" in result.stdout


def test_bash_can_read_the_script() -> None:
    """Parse the script with bash."""
    script = CliRunner().invoke(root, ["completion", "bash"]).stdout
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n"], input=script.encode(), check=True, timeout=30)  # noqa: S603 -- parsed, not run


def complete(words: str, index: int) -> list[str]:
    """Return the completions that bash gets for a word of a line."""
    environment = {"_TALLYGATE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    result = run("tallygate.cli", [], environment={**os.environ, **environment})
    assert result.returncode == 0
    return [line.partition(",")[2] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "index", "expected"),
    [
        ("tallygate ch", 1, ["check"]),
        ("tallygate s", 1, ["schema", "serve", "serve-ask", "snapshot"]),
        ("tallygate --tr", 1, ["--traceback"]),
        ("tallygate certs s", 2, ["status"]),
        ("tallygate explain TG20", 2, [f"TG20{number}" for number in range(1, 10)]),
        ("tallygate explain po", 2, ["pod"]),
        ("tallygate check -o s", 3, ["sarif"]),
        ("tallygate init --for l", 3, ["licences"]),
        ("tallygate certs re", 2, ["renew"]),
        ("tallygate serve --tls-c", 2, ["--tls-cert"]),
        ("tallygate usage --ver", 2, ["--verify"]),
        ("tallygate snapshot --in", 2, ["--in-cluster"]),
        ("tallygate predict --kubernetes 1.3", 3, ["1.36", "1.37", "1.38"]),
    ],
)
def test_commands_options_and_codes_are_completed(words: str, index: int, expected: list[str]) -> None:
    assert complete(words, index) == expected


def complete_in_cluster(folder: Path, responders: Sequence[Responder], *words: str) -> tuple[list[str], list[str]]:
    """Return the completions of the last word beside a cluster, and the paths that were requested there."""
    with server(*responders) as played:
        kubeconfig = str(write_kubeconfig(folder, played.server))
        *complete_words, incomplete = words
        completion = ShellComplete(root, {}, "tallygate", "_TALLYGATE_COMPLETE")
        items = completion.get_completions(["--kubeconfig", kubeconfig, *complete_words], incomplete)
    return [str(item.value) for item in items if item.type == "plain"], [each.path for each in played.requests]


def create_list(*names: str) -> Responder:
    """Return the response with the metadata of objects."""
    return respond_json(200, kind="PartialObjectMetadataList", items=[{"metadata": {"name": name}} for name in names])


def test_names_of_the_cluster_are_completed(tmp_path: Path) -> None:
    """Ask for the metadata of one page, and for pending pods only."""
    namespaces = create_list("team-b", "default", "team-a")
    assert complete_in_cluster(tmp_path, [namespaces], "usage", "-n", "team") == (
        ["team-a", "team-b"],
        ["/api/v1/namespaces?limit=500"],
    )
    pods, (path,) = complete_in_cluster(tmp_path, [create_list("train-0", "x")], "-n", "team-a", "predict", "pod/tr")
    assert (pods, path.partition("?")[0]) == (["pod/train-0"], "/api/v1/namespaces/team-a/pods")
    assert "spec.nodeName%3D" in path
    ledgers = respond_json(200, items=[{"spec": {"cap": f"gpus-{number}"}} for number in "ab"])
    assert complete_in_cluster(tmp_path, [ledgers], "usage", "--explain", "")[0] == ["gpus"]


def test_a_completion_is_silent_after_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    denied = respond_json(403, kind="Status", message="forbidden")
    broken = respond_json(200, items=3)
    for responder in (denied, broken):
        assert complete_in_cluster(tmp_path, [responder], "usage", "-n", "")[0] == []
    assert capsys.readouterr() == ("", "")


def test_a_completion_does_not_wait_for_a_silent_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "_MAX_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = str(write_kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"))
        completion = ShellComplete(root, {}, "tallygate", "_TALLYGATE_COMPLETE")
        threads = set(threading.enumerate())
        assert completion.get_completions(["--kubeconfig", kubeconfig, "usage", "-n"], "") == []
        waiting, errors = set(threading.enumerate()) - threads, io.StringIO()
        monkeypatch.setattr("sys.stderr", errors)
    for thread in waiting:
        thread.join()
    assert sys.stderr is errors, "the thread that still waits leaves the errors of what runs after it alone"
