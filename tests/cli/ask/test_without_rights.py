"""`predict pod/NAME`, `headroom` and `usage` without a right to the cluster: the gate answers, and stderr says so."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.usage_columns import LINES
from tallygate.answers.usage_records import UsageItemRecord
from tallygate.answers.usage_report import UsageLine
from tallygate.cli.app import root
from tallygate.cli.doctor.facts import MUTATING
from tallygate.cli.doctor.mounted_policies import CONFIGURATIONS_PATH
from tests.answers.asked_clusters import answer, build_state, read_policies
from tests.answers.test_answer_json import CLUSTER
from tests.answers.test_asked_headroom import ask_headroom
from tests.cli.ask.gates import CONFIG_MAP, create_answer, issue_certificates, send_json, send_status, write_user
from tests.kube.forwarding_server import ForwardingServer, run_forwarding_server
from tests.kube.raw_server import Part, RawServer, raw_server

_WEBHOOKS = f"{CONFIGURATIONS_PATH}/{MUTATING}s/{CONFIGURATION_NAME}"
POD_PATH = "/api/v1/namespaces/team-a/pods/large"
STORED: dict[str, Any] = {
    "metadata": {
        "name": "large",
        "namespace": "team-a",
        "uid": "u-1",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "x",
                "resources": {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}},
            }
        ]
    },
    "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "g", "resourceClaimName": "large-g"}]},
}


@contextmanager
def run_cluster(folder: Path, *responses: Sequence[Part]) -> Iterator[tuple[ForwardingServer, RawServer]]:
    """Yield an API server that lets a user list nothing of the cluster, and a gate with these answers in order."""
    context = issue_certificates(folder / "gate")
    with run_forwarding_server() as server, raw_server(*responses, context=context) as gate:
        for path in ("namespaces", "pods", "nodes"):
            server.objects[f"/api/v1/{path}"] = 403, {"kind": "Status", "message": f"ann may not list {path}"}
        server.objects[_WEBHOOKS] = 403, {"kind": "Status", "message": "ann may not get this"}
        ca = (folder / "gate" / "ca.crt").read_text()
        server.objects[CONFIG_MAP] = 200, {"data": {"url": f"https://localhost:{gate.port}", "ca.crt": ca}}
        server.objects[POD_PATH] = 200, STORED
        yield server, gate


def run(server: ForwardingServer, folder: Path, *arguments: str) -> Result:
    words = [*arguments, "--kubeconfig", str(write_user(folder, server.url))]
    return CliRunner().invoke(root, words, catch_exceptions=False)


def answer_about_pod(**fields: Any) -> Sequence[Part]:
    pod = STORED | {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": "team-a"}} | fields
    return send_json(answer(json.dumps(pod), build_state(CLUSTER), VisibleNames(frozenset(), nodes=False)))


def test_the_gate_predicts_a_pending_pod(tmp_path: Path) -> None:
    with run_cluster(tmp_path, answer_about_pod()) as (server, gate):
        result = run(server, tmp_path, "predict", "pod/large")
    assert result.exit_code == 1
    assert result.stdout.startswith("Pod team-a/large: not now\n")
    assert "used by 1 pod of other namespaces" in result.stdout
    assert result.stderr == (
        "tallygate: you may not read the whole cluster: the gate answers about the manifest of the pod, at "
        f"https://localhost:{gate.port}\n"
    )
    sent = json.loads(gate.requests[0].partition(b"\r\n\r\n")[2])
    assert sent["metadata"] == {"name": "large", "namespace": "team-a", "uid": "u-1"}
    assert sent["status"] == {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "large-g"}]}


def test_the_prediction_of_the_gate_is_also_data(tmp_path: Path) -> None:
    with run_cluster(tmp_path, answer_about_pod()) as (server, _):
        result = run(server, tmp_path, "predict", "pod/large", "-o", "json")
    content = json.loads(result.stdout)
    assert content["kind"] == "PredictionList"
    assert [each["verdict"] for each in content["items"]] == ["not now"]


def test_a_pod_that_would_be_rejected_today_is_named_as_one_that_is_stored(tmp_path: Path) -> None:
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "1.5"}}}]}
    with run_cluster(tmp_path, answer_about_pod(spec=spec)) as (server, _):
        result = run(server, tmp_path, "predict", "pod/large")
    assert result.exit_code == 1
    assert "would be rejected" in result.stdout
    assert "the pod is stored already: a new one like it would be rejected" in result.stderr


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ((404, {}), "no pod of that name in namespace team-a"),
        ((403, {"message": "ann may not get pods"}), "ann may not get pods"),
        ((200, STORED | {"spec": {"nodeName": "n1"}}), "it is on node n1 already"),
        ((200, {"metadata": {}}), "cannot be read"),
        ((200, []), "cannot be read"),
    ],
)
def test_a_pod_that_cannot_be_asked_about_is_a_usage_error(response: Any, expected: str, tmp_path: Path) -> None:
    with run_cluster(tmp_path, []) as (server, gate):
        server.objects[POD_PATH] = response
        result = run(server, tmp_path, "predict", "pod/large")
    assert (result.exit_code, gate.requests) == (2, [])
    assert expected in result.stderr


SHAPE = """\
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: large}
spec: {allocatable: {cpu: 64, nvidia.com/gpu: 8}}
"""
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": "team-a"}} | {
    "spec": STORED["spec"]
}
GANG = """\
apiVersion: example.com/v1
kind: Gang
metadata: {name: all}
spec: {template: {spec: {containers: [{name: main, image: x}]}}}
"""


def run_headroom(parts: Sequence[Part], folder: Path, *arguments: str, text: str = "") -> tuple[Result, RawServer]:
    """Run the command for a file with objects in it, without the right to list the cluster."""
    folder.mkdir(exist_ok=True)
    file = folder / "new.yaml"
    file.write_text(text or json.dumps(POD))
    with run_cluster(folder, parts) as (server, gate):
        return run(server, folder, "headroom", str(file), *arguments), gate


def answer_copies(text: str) -> Sequence[Part]:
    """Return the response about the copies of the pods in a text, to someone without rights."""
    return send_json(ask_headroom(text, build_state(CLUSTER), VisibleNames(frozenset(), nodes=False)))


def test_the_gate_counts_the_copies_of_a_pod(tmp_path: Path) -> None:
    text = json.dumps(POD).replace('"4"', '"1"')
    result, gate = run_headroom(answer_copies(text), tmp_path, text=text)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "Pod team-a/large: 2 more fit, on 2 nodes"
    assert lines[1] == "    0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    assert [line.split() for line in lines[2:]] == [["NODE", "COPIES"], ["[node]", "1"], ["[node]", "1"]]
    answers = f"the gate answers about the pods in the files, at https://localhost:{gate.port}"
    assert result.stderr.splitlines() == [
        f"tallygate: you may not read the whole cluster: {answers}",
        "tallygate: the limitranges of this cluster are not known: new pods count as they are written",
        "tallygate: the API server does not report its version: the rules of kube-scheduler 1.37 apply",
    ]
    assert gate.requests[0].startswith(b"POST /v1/headroom?namespace=team-a HTTP/1.1\r\n")


def test_the_copies_of_the_gate_are_also_data(tmp_path: Path) -> None:
    result, _ = run_headroom(answer_copies(json.dumps(POD)), tmp_path, "-o", "json")
    content = json.loads(result.stdout)
    assert (result.exit_code, content["kind"]) == (0, "HeadroomList")
    assert [(each["object"]["name"], each["copies"]) for each in content["items"]] == [("large", 0)]


def test_what_the_gate_does_not_read_or_apply_is_reported(tmp_path: Path) -> None:
    text = f"{SHAPE}---\n{GANG}---\n{json.dumps(POD)}"
    result, _ = run_headroom(answer_copies(text), tmp_path, text=text)
    assert result.exit_code == 1, result.stderr
    assert "tallygate: Gang all: " in result.stderr.replace("team-a/", "")
    assert "NodeShape large would act on the others once it is stored, and does not act here" in result.stderr
    assert result.stdout.startswith("Pod team-a/large: 0 more fit, on 0 nodes")


def test_a_kind_that_only_the_policies_of_the_gate_define_is_asked_about(tmp_path: Path) -> None:
    """Ask about a file in which the command, without the policies of the gate, finds no pod."""
    kind = """\
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: gangs}
spec:
  {group: example.com, kind: Gang, resource: gangs, versions: [v1], pods: [{template: spec.template}]}
"""
    state, policies = build_state(CLUSTER), read_policies(kind)
    parts = send_json(ask_headroom(GANG, state, VisibleNames(frozenset(), nodes=False), policies))
    result, _ = run_headroom(parts, tmp_path, text=GANG)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Gang team-a/all: ")
    assert "is not read" not in result.stderr
    assert "the policies of the gate are unknown" not in result.stderr


def test_files_without_pods_are_a_usage_error_of_the_gate_too(tmp_path: Path) -> None:
    result, _ = run_headroom(answer_copies(GANG), tmp_path, text=GANG)
    assert result.exit_code == 2
    assert "new.yaml: it contains neither a pod nor a pod template of a kind that is read" in result.stderr


def test_an_answer_about_copies_that_is_none_is_an_error(tmp_path: Path) -> None:
    result, _ = run_headroom(send_json(create_answer()), tmp_path)
    assert (result.exit_code, "sends no AskHeadroom that this version reads" in result.stderr) == (2, True)


COMMANDS = [("predict", "pod/large"), ("usage", "-n", "team-a"), ("headroom", "pod.yaml")]


@pytest.fixture(autouse=True)
def pod_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the file of a pod into the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(json.dumps(POD))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_refusal_of_the_gate_is_shown_beside_the_missing_right(command: Sequence[str], tmp_path: Path) -> None:
    with run_cluster(tmp_path, send_status(429, "too many asks of this user")) as (server, _):
        result = run(server, tmp_path, *command)
    assert result.exit_code == 2
    assert "ann may not list namespaces" in result.stderr
    assert "the gate does not answer instead" in result.stderr
    assert "too many asks of this user" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_server_of_asks_the_missing_right_is_the_error(command: Sequence[str], tmp_path: Path) -> None:
    with run_cluster(tmp_path, []) as (server, _):
        del server.objects[CONFIG_MAP]
        result = run(server, tmp_path, *command)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0].startswith("tallygate: namespaces cannot be listed at http://127.0.0.1")
    assert "no server of asks is installed there. An admin can add it (docs/operate/ask.md)" in lines[1]


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("predict", "pod/large", "--add", "1 x {cpu: 1}"), "`tallygate ask -f FILE` answers about files"),
        (("predict", "pods"), "`tallygate predict pod/NAME` about a pending pod"),
        (("predict", "-f", "pod.yaml"), "`tallygate ask -f FILE` answers about files"),
        (("headroom", "-f", "pod.yaml", "--policies", "shape.yaml"), "leave out --policies"),
        (("usage", "-A"), "`tallygate usage -n NAMESPACE` shows"),
    ],
)
def test_what_the_gate_does_not_answer_names_what_it_answers(
    command: Sequence[str], advice: str, tmp_path: Path
) -> None:
    (tmp_path / "shape.yaml").write_text(SHAPE)
    with run_cluster(tmp_path, []) as (server, gate):
        result = run(server, tmp_path, *command)
    assert (result.exit_code, gate.requests) == (2, [])
    assert "ann may not list namespaces" in result.stderr
    assert advice in result.stderr


def create_line(**fields: Any) -> dict[str, Any]:
    """Return a line of `tallygate usage -o json`."""
    line: dict[str, Any] = {
        "cap": "gpus",
        "group": None,
        "namespace": "team-a",
        "namespaces": None,
        "resource": "nvidia.com/gpu",
        "unit": "whole",
        "hard": 8,
        "hardUntil": "2099-12-04T18:00:00Z",
        "hardAfterwards": 4,
        "percent": None,
        "capacity": None,
        "fallsTo": None,
        "soft": 6,
        "used": 7,
        "reserved": None,
        "free": 1,
        "terminating": 1,
        "countedAt": None,
        "exceeded": "soft",
        "exceededSince": "2026-01-01T08:00:00Z",
        "initializing": False,
        "surge": None,
        "guaranteed": {"amount": 4, "unspent": 1, "namespaces": 2},
        "remarks": ["8 until 2099-12-04T18:00:00Z, then 4"],
    }
    return line | fields


LATER = {"cap": "memory", "resource": "memory", "hard": 200, "soft": None, "used": 20, "free": 180, "exceeded": None}
SHARED = {
    "cap": "all",
    "namespace": None,
    "namespaces": 12,
    "group": "team=a",
    "reserved": 2,
    "free": 0,
    "exceeded": "hard",
    "used": 8,
    "surge": {"amount": 2, "since": "2026-01-01T09:00:00Z", "until": "2026-01-01T10:00:00Z"},
    "countedAt": "2026-01-01T09:59:00Z",
    "initializing": True,
}
SHARE = {"percent": "25%", "capacity": 40, "fallsTo": 8, "hardUntil": None, "hard": 10, "free": 3}


@pytest.mark.parametrize("fields", [{}, LATER, SHARED, SHARE, {"hard": None, "free": None, "hardUntil": None}])
def test_lines_are_read_as_they_are_written(fields: dict[str, Any]) -> None:
    written = create_line(**fields)
    if written["hardUntil"] is None:
        written["hardAfterwards"] = None
    line: UsageLine = msgspec.convert(written, UsageItemRecord).to_line()
    assert LINES.to_dict(line) == written


def send_usage(*lines: Any, **fields: Any) -> Sequence[Part]:
    """Return a response with the usage of team-a."""
    usage = {"kind": "AskUsage", "asOf": "2026-01-01T10:00:00Z", "items": list(lines), "notes": [], "unhealthy": []}
    return send_json(usage | fields)


def test_the_gate_answers_what_a_namespace_uses(tmp_path: Path) -> None:
    unhealthy = [{"node": None, "resource": "nvidia.com/gpu", "unhealthy": 1, "capacity": 8}]
    parts = send_usage(create_line(), create_line(**LATER), notes=["a note"], unhealthy=unhealthy)
    with run_cluster(tmp_path, parts) as (server, gate):
        result = run(server, tmp_path, "usage", "--over", "50%", "--total")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["CAP", "NAMESPACE", "RESOURCE", "HARD"]
    assert lines[1].split()[:7] == ["gpus", "team-a", "nvidia.com/gpu", "8", "6", "7", "-"]
    assert "memory" not in result.stdout
    assert "TOTAL" in result.stdout
    assert "you may not read the whole cluster: the gate answers about namespace team-a" in result.stderr
    assert "note: a note" in result.stderr
    assert "1 of 8 nvidia.com/gpu unhealthy on [node]" in result.stderr
    assert gate.requests[0].startswith(b"GET /v1/usage?namespace=team-a HTTP/1.1\r\n")


def test_the_usage_of_the_gate_is_also_data(tmp_path: Path) -> None:
    lines = [create_line(), create_line(**LATER)]
    with run_cluster(tmp_path, send_usage(*lines)) as (server, _):
        result = run(server, tmp_path, "usage", "-n", "team-a", "-o", "json", "--cap", "memory")
    assert json.loads(result.stdout)["items"] == [lines[1]]


@pytest.mark.parametrize("parts", [send_json({}), send_json(create_answer()), send_usage({"cap": 1})])
def test_an_answer_that_is_no_usage_is_an_error(parts: Sequence[Part], tmp_path: Path) -> None:
    with run_cluster(tmp_path, parts) as (server, _):
        result = run(server, tmp_path, "usage", "-n", "team-a")
    assert (result.exit_code, "sends no AskUsage that this version reads" in result.stderr) == (2, True)


def test_a_cap_that_does_not_count_the_namespace_is_a_usage_error(tmp_path: Path) -> None:
    with run_cluster(tmp_path, send_usage(create_line())) as (server, _):
        result = run(server, tmp_path, "usage", "-n", "team-a", "--cap", "other")
    assert (result.exit_code, "cap other does not count namespace team-a" in result.stderr) == (2, True)
