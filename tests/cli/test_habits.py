"""The command line by the habits of kubectl: global options, namespaces, files, label selectors, and the plugin."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.sources import snapshot_file
from tallygate.policy.schema import read_schema_text
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot

_BIN = Path(sys.executable).parent
_POLICY = "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: gpus}\nspec: {hard: {pods: 8}}\n"
_SCENARIO = "name: one\npolicies: [policy.yaml]\nnamespaces: {team-a: {}}\nsteps: [{create: {pod: p}}]\n"


def _create_pod(name: str = "p", **labels: str) -> Object:
    container = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def _create_pending_pod(name: str, pod_namespace: str, created: str, **labels: str) -> Object:
    meta = {"labels": labels, "creationTimestamp": created}
    return pod(name, {"cpu": "1"}, pod_namespace, meta=meta, spec={"nodeName": None}, status={"phase": "Pending"})


_NODE: Object = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "n", "resourceVersion": "7"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10", GPU: "8"}},
}
_ITEMS = [
    _NODE,
    namespace("team-a"),
    namespace("team-b"),
    _create_pending_pod("late", "team-a", "2026-11-02T00:00:00Z", app="train"),
    _create_pending_pod("early", "team-a", "2026-11-01T00:00:00Z", app="train"),
    _create_pending_pod("other", "team-b", "2026-11-03T00:00:00Z", app="serve"),
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder with a policy, a scenario, a manifest, a snapshot and a kubeconfig."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    Path("policy.yaml").write_text(_POLICY)
    Path("scenario.yaml").write_text(_SCENARIO)
    Path("pod.yaml").write_text(json.dumps(_create_pod()))
    write_snapshot(tmp_path, _ITEMS)
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-b"}},
        {"name": "there", "context": {"cluster": "c", "user": "u"}},
    ]
    clusters = [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]
    content = {"current-context": "here", "contexts": contexts, "clusters": clusters, "users": []}
    Path("kubeconfig").write_text(json.dumps(content))


def _run(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(root, arguments, input=text, prog_name="tallygate")


def _list_names(*arguments: str) -> list[str]:
    """Return the predicted objects, as namespace/name, in their order."""
    result = _run("predict", *arguments, "--snapshot", "snapshot.json", "-o", "json")
    assert result.exit_code in {0, 1}, result.stderr
    found = [each["object"] for each in json.loads(result.stdout)["items"]]
    return [f"{each['namespace']}/{each['name']}" for each in found]


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("check",), "pod.yaml"),
        (("lint",), "policy.yaml"),
        (("test",), "scenario.yaml"),
        (("predict", "--snapshot", "snapshot.json"), "pod.yaml"),
        (("headroom", "--snapshot", "snapshot.json"), "pod.yaml"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_command_takes_paths_and_f_and_stdin(command: tuple[str, ...], file: str) -> None:
    """Print the same, but for the name of the file."""
    content = Path(file).read_bytes()
    results = [
        _run(*command, file),
        _run(*command, "-f", file),
        _run(*command, "-", text=content),
        _run(*command, "-f", "-", text=content),
    ]
    assert [each.exit_code for each in results] == [0] * 4, results[-1].output
    outputs = [each.output.replace("<stdin>", file) for each in results]
    assert outputs == outputs[:1] * 4
    assert outputs[0]
    several = _run(*command, file, "-f", file)
    assert several.exit_code == _run(*command, "-f", file, "-f", file).exit_code
    twice = _run(*command, "-", "-f", "-", text=content)
    assert (twice.exit_code, twice.stderr) == (
        2,
        "tallygate: stdin (-) can be read once: name a file in the other place\n",
    )
    nothing = _run(*command)
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("tallygate: name ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-n", "team-a", "predict", "pod/late"),
        ("--namespace=team-a", "predict", "pod/late"),
        ("predict", "pod/late", "-n", "team-a"),
        ("predict", "-nteam-a", "pod/late"),
        ("-n", "team-b", "predict", "pod/late", "-n", "team-a"),
    ],
)
def test_global_options_stand_before_and_after_the_command(arguments: tuple[str, ...]) -> None:
    result = _run(*arguments, "--snapshot", "snapshot.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Pod team-a/late: fits now")


def test_global_options_stand_before_a_command_of_a_group() -> None:
    result = _run("--kubeconfig", "nowhere", "certs", "status")
    assert result.stderr.startswith("tallygate: there is no kubeconfig: nowhere")


def test_an_option_that_a_command_does_not_have_is_an_error() -> None:
    """Do not ignore it: the user would take the result for another cluster's."""
    result = _run("--context", "x", "lint", "policy.yaml")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: tallygate lint has no option --context")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "team-b"),
        (("-n", "team-a"), "team-a"),
        (("--snapshot", "snapshot.json"), "team-b"),
    ],
)
@pytest.mark.parametrize("command", ["check", "predict", "headroom"])
def test_the_default_namespace_is_that_of_the_context(command: str, arguments: tuple[str, ...], expected: str) -> None:
    source = () if command == "check" or "--snapshot" in arguments else ("--snapshot", "snapshot.json")
    Path("pod.yaml").write_text(json.dumps(_create_pod()).replace('"cpu": "1"', f'"{GPU}": "0.5", "cpu": "1"'))
    output = _run(command, "pod.yaml", *arguments, *source).output
    assert f"Pod {expected}/p" in output


def test_a_context_without_a_namespace_has_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("kubeconfig:nowhere", "nowhere:kubeconfig"):
        monkeypatch.setenv("KUBECONFIG", variable)
        assert _list_names("pod.yaml") == ["team-b/p"]
    Path("kubeconfig").write_text(Path("kubeconfig").read_text().replace('"here"', '"there"', 1))
    assert _list_names("pod.yaml") == ["default/p"]
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    assert _list_names("pod.yaml") == ["default/p"]


def test_an_unreadable_kubeconfig_is_named() -> None:
    """Read none for a namespace on the command line."""
    Path("kubeconfig").write_text("{")
    result = _run("check", "pod.yaml")
    assert result.exit_code == 2
    assert "kubeconfig" in result.stderr
    assert "cannot be read" in result.stderr
    assert _run("check", "pod.yaml", "-n", "team-a").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("pods", "-n", "team-a"), ["team-a/early", "team-a/late"]),
        (("pods",), ["team-b/other"]),
        (("pods", "-A"), ["team-a/early", "team-a/late", "team-b/other"]),
        (("pods", "-A", "-l", "app=train"), ["team-a/early", "team-a/late"]),
        (("pods", "-A", "-l", "app!=train"), ["team-b/other"]),
        (("pods", "-A", "-l", "app in (serve, x)"), ["team-b/other"]),
        (("pods", "-A", "-l", "app notin (serve,x),app"), ["team-a/early", "team-a/late"]),
        (("pods", "-A", "-l", "!app"), []),
        (("po", "late", "early", "-n", "team-a"), ["team-a/late", "team-a/early"]),
        (("pod/late", "pods/early", "-n", "team-a"), ["team-a/late", "team-a/early"]),
        (("pod.yaml", "-l", "!app"), ["team-b/p"]),
    ],
)
def test_pending_pods_are_named_as_for_kubectl_get(arguments: tuple[str, ...], names: list[str]) -> None:
    """List them in the order in which the scheduler tries them."""
    assert _list_names(*arguments) == names


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("pods", "-n", "tem-a"), 'namespace tem-a does not exist in the cluster; did you mean "team-a"?'),
        (("pods", "-l", "app=("), "is not a label selector; write one as in app=train"),
        (("pods", "-l", "app in (a b)"), "is not a label selector"),
        (("pod.yaml", "-A"), "-A belongs to `tallygate predict pods -A`"),
        (("pod.yaml", "-l", "app=x"), "and that the selector matches"),
        (("pods", "--replicas", "2"), "--replicas belongs to files of manifests"),
        (("train-0",), "train-0: there is no such file; a pending pod is named as in pod/NAME"),
        (("pod/late",), "pending pods are pod/other -n team-b"),
    ],
)
def test_invalid_names_of_pods_are_usage_errors(arguments: tuple[str, ...], sentence: str) -> None:
    result = _run("predict", *arguments, "--snapshot", "snapshot.json")
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_a_word_of_a_strategy_is_met_with_the_nearest() -> None:
    for word, nearest in (
        ("Least", "LeastAllocated"),
        ("mostallocated", "MostAllocated"),
        ("MostAlocated", "MostAllocated"),
    ):
        result = _run("predict", "pod.yaml", "--snapshot", "snapshot.json", "--scoring", word)
        assert result.stderr.startswith(
            f"tallygate: --scoring {word}: there is no such strategy, did you mean {nearest}?"
        )


def test_a_duration_without_a_unit_gets_the_unit_as_advice() -> None:
    result = _run("test", "-", text=_SCENARIO.replace("create: {pod: p}", "wait: 5"))
    assert "must be a text, not 5; write a number and a unit, as in 5s or 5m" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("usage", "--context", "her"), "kubeconfig {} has no context her; did you mean here?"),
        (("usage", "--context", "x"), "kubeconfig {} has no context x; it has here, there"),
        (("doctor",), "the API server at https://127.0.0.1:1 does not answer: "),
        (("usage", "--policies", "policy.yaml"), "capledgers cannot be listed at https://127.0.0.1:1: "),
    ],
)
def test_messages_about_connections_have_no_names_of_python(arguments: tuple[str, ...], message: str) -> None:
    """Name the file or the server once, with the cause."""
    content = json.loads(Path("kubeconfig").read_text())
    Path("kubeconfig").write_text(json.dumps({**content, "users": [{"name": "u", "user": {}}]}))
    result = _run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"tallygate: {message.format(Path('kubeconfig').absolute())}")
    assert "Connection(" not in result.stderr
    assert "Errno" not in result.stderr


@pytest.mark.parametrize("command", ["usage", "check", "predict", "headroom", "audit", "compile"])
def test_a_snapshot_may_be_compressed_or_come_from_stdin(command: str) -> None:
    arguments = {
        "usage": ("--policies", "policy.yaml"),
        "check": ("pod.yaml", "--policies", "policy.yaml"),
        "audit": ("--policies", "policy.yaml"),
        "compile": ("policy.yaml",),
    }.get(command, ("pod.yaml",))
    content = Path("snapshot.json").read_bytes()
    Path("members.gz").write_bytes(gzip.compress(content[:100]) + gzip.compress(content[100:]))
    plain = _run(command, *arguments, "--snapshot", "snapshot.json")
    assert plain.exit_code == 0, plain.output
    for source, text in (("members.gz", None), ("-", content), ("-", gzip.compress(content))):
        result = _run(command, *arguments, "--snapshot", source, text=text)
        assert (result.exit_code, result.stdout) == (0, plain.stdout), result.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            gzip.compress(b"{}" * 99)[:-9],
            "<stdin>: it is compressed by gzip, and its end is missing: was it copied whole?",
        ),
        (gzip.compress(b"{}")[:12] + b"x" * 20, "<stdin>: it is compressed by gzip, and damaged: "),
        (b"{", "<stdin>: no snapshot: "),
    ],
    ids=["short", "damaged", "no gzip"],
)
def test_a_damaged_snapshot_is_a_usage_error(content: bytes, sentence: str) -> None:
    result = _run("usage", "--policies", "policy.yaml", "--snapshot", "-", text=content)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"tallygate: {sentence}")


def test_a_snapshot_is_decompressed_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not decompress a small file into gigabytes."""
    monkeypatch.setattr(snapshot_file, "SNAPSHOT_LIMITS", replace(snapshot_file.SNAPSHOT_LIMITS, size=1 << 20))
    result = _run("usage", "--policies", "policy.yaml", "--snapshot", "-", text=gzip.compress(b" " * (64 << 20)))
    assert result.stderr.startswith("tallygate: <stdin>: larger than 1 MiB; ")


def test_a_snapshot_of_many_compressed_parts_is_read_once() -> None:
    """Read each part in its place, and copy no rest of the file."""
    content = gzip.compress(Path("snapshot.json").read_bytes()) + gzip.compress(b"") * 100_000
    started_at = time.process_time()
    assert _run("usage", "--policies", "policy.yaml", "--snapshot", "-", text=content).exit_code == 0
    assert time.process_time() - started_at < 5


def test_stdin_is_not_both_the_snapshot_and_the_manifests() -> None:
    result = _run("check", "-", "--snapshot", "-", text=b"{}")
    assert result.stderr == "tallygate: stdin (-) can be read once: name a file in the other place\n"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("check", "pod.yaml"), "CheckReport"),
        (("lint", "policy.yaml"), "LintReport"),
        (("test", "scenario.yaml"), "TestReport"),
        (("explain",), "CodeList"),
        (("explain", "TG101"), "CodeList"),
        (("explain", "pod", "-f", "pod.yaml", "-f", "pod.yaml"), "PodRequestList"),
        (("predict", "pod.yaml", "--snapshot", "snapshot.json"), "PredictionList"),
        (("headroom", "pod.yaml", "--snapshot", "snapshot.json"), "HeadroomList"),
        (("usage", "--policies", "policy.yaml", "--snapshot", "snapshot.json"), "UsageList"),
        (("usage", "--policies", "policy.yaml", "--explain", "gpus", "--snapshot", "snapshot.json"), "ConsumerList"),
        (("audit", "--policies", "policy.yaml", "--snapshot", "snapshot.json"), "AuditReport"),
        (("compile", "policy.yaml", "--gaps"), "GapList"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_data_has_a_version_and_a_kind(arguments: tuple[str, ...], kind: str) -> None:
    """Document each kind in docs/reference/commands.md."""
    data: dict[str, Any] = json.loads(_run(*arguments, "-o", "json").stdout)
    assert (data["apiVersion"], data["kind"]) == ("tallygate.dev/v1", kind)
    assert yaml.safe_load(_run(*arguments, "-o", "yaml").stdout) == data
    assert not kind.endswith("List") or isinstance(data["items"], list)
    assert f"`{kind}`" in (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()


def test_the_schemas_are_printed() -> None:
    """Print the files that lint and test check by."""
    assert _run("schema").stdout == _run("schema", "policy").stdout == read_schema_text()
    assert json.loads(_run("schema", "scenario").stdout)["title"] == "tallygate scenario"
    assert json.loads(_run("schema", "ask").stdout)["$ref"] == "#/$defs/AskAnswer"


def _run_installed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an installed program, found in $PATH as kubectl finds its plugins."""
    environment = {**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment, timeout=60)  # noqa: S603


def test_the_plugin_names_itself_as_it_is_called() -> None:
    page = _run_installed("kubectl-tallygate", "predict", "--help").stdout
    assert page.startswith("Usage: kubectl tallygate predict [OPTIONS]")
    assert "\n  kubectl tallygate predict pod/train-0 -n team-a\n" in page
    assert "of `kubectl tallygate snapshot`" in " ".join(page.split())
    assert "\n  tallygate" not in page
    error = _run_installed("kubectl-tallygate", "predict", "pod.yaml", "-A").stderr
    assert error == "tallygate: -A belongs to `kubectl tallygate predict pods -A`\n"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_runs_and_completes_the_plugin() -> None:
    version = _run_installed("kubectl", "tallygate", "--version")
    assert (version.returncode, version.stdout.split()[:2]) == (0, ["kubectl", "tallygate"]), version.stderr
    completed = _run_installed("kubectl", "__complete", "tallygate", "check", "--output", "s")
    assert completed.stdout.splitlines() == ["sarif", ":4"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("us",), ["usage\tShow the limits of caps, and what is used and reserved.", ":4"]),
        (("usage", "--context", ""), ["here", "there", ":4"]),
        (("--context", "t"), ["there", ":4"]),
        (("check", ""), [":0"]),
        (("usage", "--policies", "policy.yaml", "--cap", "g"), ["gpus", ":4"]),
        (("usage", "--cap", "g"), [":4"]),
        (("usage", "-n", ""), [":4"]),
        (("predict", "pod/"), [":4"]),
    ],
)
def test_completions_follow_kubectls_protocol(words: tuple[str, ...], lines: list[str]) -> None:
    """Print no error where the cluster cannot be reached."""
    done = _run_installed("kubectl_complete-tallygate", *words)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")
