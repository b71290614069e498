"""`tallygate ask` with a real server of asks behind a forwarded port, and the output for each kind of answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.ask.asked_objects import AskedObjects
from tallygate.cli.ask.gate_address import GateOptions, find_address
from tallygate.kube.client import ApiClient
from tallygate.kube.transport import Response
from tests.answers.asked_clusters import answer, build_state, read_manifests, read_policies
from tests.answers.test_answer_json import CLUSTER, POLICIES, create_asked_pod
from tests.cli.ask.gates import (
    CONFIG_MAP,
    FORWARD,
    POD,
    SERVICE,
    SLICES,
    create_answer,
    create_finding,
    create_object,
    issue_certificates,
    name_gate,
    run_ask,
    send_json,
    write_user,
)
from tests.kube.forwarding_server import ForwardingServer, run_forwarding_server
from tests.kube.kubeconfig import write_kubeconfig
from tests.kube.raw_server import raw_server
from tests.server.process import eventually
from tests.server.test_ask_app import ANN
from tests.server.test_asked_cluster import ASKED, run_objects
from tests.server.test_serve_asks import AskServer, review

PORT = 8443


def register_gate(server: ForwardingServer, url: str, ca: str) -> None:
    """Give an API server what an installed server of asks has: the ConfigMap, and the Service with one ready pod."""
    server.objects[CONFIG_MAP] = 200, {"data": {"url": url, "ca.crt": ca}}
    waiting = {"targetRef": {"kind": "Pod", "name": "ask-0"}, "conditions": {"ready": False}}
    ready = {"targetRef": {"kind": "Pod", "name": "ask-1"}, "conditions": {"ready": True}}
    ports = [{"name": "monitor", "port": 9443}, {"name": "https", "port": PORT}]
    server.objects[SLICES] = 200, {"items": [{"endpoints": None}, {"endpoints": [waiting, ready], "ports": ports}]}


@contextmanager
def run_gate(folder: Path) -> Iterator[ForwardingServer]:
    """Yield an API server that forwards a port to a real server of asks, which Ann may ask about team-a."""
    certificates, own = folder / "gate", folder / "own"
    own.mkdir()
    issue_certificates(certificates)
    with run_objects() as cluster, run_forwarding_server() as server:
        cluster.review = review
        kubeconfig = write_kubeconfig(own, cluster.server)
        with AskServer(certificates, "tallygate.cli", cluster="kubeconfig", kubeconfig=kubeconfig) as asks:
            with asks.client() as client:
                assert eventually(lambda: client.get("/readyz").status_code == 200)
            server.local_ports[PORT] = asks.port
            register_gate(server, f"https://{SERVICE}:443", (certificates / "ca.crt").read_text())
            yield server
        assert not cluster.stored


def test_a_gate_inside_of_the_cluster_is_asked_through_a_forwarded_port(tmp_path: Path) -> None:
    with run_gate(tmp_path) as server:
        result = run_ask(write_user(tmp_path, server.url, token=ANN), stdin=ASKED.decode())
        refused = run_ask(write_user(tmp_path, server.url, token="bob"), stdin=ASKED.decode())  # noqa: S106  # made up
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == "Pod team-a/first: fits now: on 1 node; 1 feasible node"
    assert "Pod team-a/second: not now" in result.stdout
    assert "4 objects in 1 file: nothing found" in result.stderr
    assert "answered by the gate from the cluster as of " in result.stderr
    assert server.requests[:3] == [(path, f"Bearer {ANN}") for path in (CONFIG_MAP, SLICES, FORWARD)]
    assert refused.exit_code == 2
    assert f"https://{SERVICE}:443 says 401: the API server does not accept this token" in refused.stderr


def ask_api_server(server: ForwardingServer, folder: Path, *arguments: str) -> Result:
    return run_ask(write_user(folder, server.url), *arguments)


def test_a_pod_behind_the_port_without_the_certificate_of_the_gate_gets_nothing(tmp_path: Path) -> None:
    issue_certificates(tmp_path / "gate")
    context = issue_certificates(tmp_path / "thief")
    with run_forwarding_server() as server, raw_server([], context=context) as thief:
        server.local_ports[PORT] = thief.port
        register_gate(server, f"https://{SERVICE}", (tmp_path / "gate" / "ca.crt").read_text())
        result = ask_api_server(server, tmp_path)
    assert (result.exit_code, thief.requests) == (2, [])
    assert "is not valid" in result.stderr
    assert f"ConfigMap tallygate-system/{CONFIG_MAP.rpartition('/')[2]}, ca.crt" in result.stderr


@pytest.mark.parametrize("forbidden", [SLICES, FORWARD])
def test_who_may_not_forward_a_port_sees_the_missing_rights(forbidden: str, tmp_path: Path) -> None:
    issue_certificates(tmp_path / "gate")
    with run_forwarding_server() as server:
        register_gate(server, f"https://{SERVICE}", (tmp_path / "gate" / "ca.crt").read_text())
        server.objects[forbidden] = 403, {"kind": "Status", "message": "ann may not", "code": 403}
        result = ask_api_server(server, tmp_path)
    assert result.exit_code == 2
    for words in ("ann may not", "list endpointslices", "get and create pods/portforward", "set an address"):
        assert words in result.stderr


def test_a_gate_without_a_ready_pod_is_an_error(tmp_path: Path) -> None:
    issue_certificates(tmp_path / "gate")
    with run_forwarding_server() as server:
        register_gate(server, f"https://{SERVICE}", (tmp_path / "gate" / "ca.crt").read_text())
        server.objects[SLICES] = 200, {"items": []}
        result = ask_api_server(server, tmp_path)
    assert (result.exit_code, "has no ready pod" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (404, {}, "no server of asks is installed there"),
        (403, {"message": "ann may not get configmaps"}, "ann may not get configmaps"),
        (200, {}, "the leading replica of the gate writes it"),
        (200, {"data": {"url": "ask.example.com"}}, "write https://HOST:PORT"),
        (200, {"data": {"url": "http://ask.example.com"}}, "credentials are sent by https alone"),
        (200, {"data": {"url": 7}}, "is not a ConfigMap"),
    ],
)
def test_a_cluster_without_a_usable_config_map_is_an_error(
    status: int, content: Any, expected: str, tmp_path: Path
) -> None:
    with run_forwarding_server() as server:
        server.objects["/api/v1/namespaces/gates/configmaps/tallygate-ask"] = status, content
        result = ask_api_server(server, tmp_path, "--gate-namespace", "gates")
    assert (result.exit_code, expected in result.stderr, len(server.requests)) == (2, True, 1)


def test_an_address_that_an_admin_set_is_asked_straight(tmp_path: Path) -> None:
    context = issue_certificates(tmp_path / "gate")
    answered = send_json(create_answer(create_object()))
    with run_forwarding_server() as server, raw_server(answered, context=context) as gate:
        register_gate(server, f"https://localhost:{gate.port}/", (tmp_path / "gate" / "ca.crt").read_text())
        result = ask_api_server(server, tmp_path)
    assert result.exit_code == 0, result.stderr
    assert [path for path, _ in server.requests] == [CONFIG_MAP]


@pytest.mark.parametrize(("api_server", "forwards"), [("127.0.0.1", False), ("10.0.0.1", True)])
def test_a_pod_of_the_cluster_asks_the_service_itself(
    api_server: str,
    forwards: bool,  # noqa: FBT001  # a case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forward a port also from a pod, if it has a kubeconfig of another cluster."""
    issue_certificates(tmp_path / "gate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", api_server)
    with run_forwarding_server() as server:
        register_gate(server, "https://none.tallygate-system.svc", (tmp_path / "gate" / "ca.crt").read_text())
        result = ask_api_server(server, tmp_path)
    paths = [path for path, _ in server.requests]
    assert paths == [CONFIG_MAP, *([SLICES, FORWARD] if forwards else ())]
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("server", "is_inside"),
    [
        ("https://kubernetes.default.svc:443", True),
        ("https://kubernetes.default.svc.cluster.local", True),
        ("https://kubernetes", True),
        ("https://kubernetes.example.com:6443", False),
        ("https://api.example.com", False),
    ],
)
def test_the_address_of_the_api_server_tells_where_a_command_runs(server: str, is_inside: bool) -> None:  # noqa: FBT001  # a case
    response = Response(200, json.dumps({"data": {"url": f"https://{SERVICE}"}}).encode())
    client = cast("ApiClient", SimpleNamespace(server=server, get=lambda _: response))
    assert find_address(GateOptions(), client, in_cluster=False).is_forwarded is not is_inside


def test_the_address_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = issue_certificates(tmp_path / "gate")
    with raw_server(send_json(create_answer(create_object())), context=context) as gate:
        monkeypatch.setenv("TALLYGATE_ASK_URL", f"https://localhost:{gate.port}")
        monkeypatch.setenv("TALLYGATE_ASK_CA", str(tmp_path / "gate" / "ca.crt"))
        result = run_ask(write_user(tmp_path))
    assert result.exit_code == 0, result.stderr


def ask_gate_that_answers(folder: Path, content: Any, *arguments: str, stdin: str = POD) -> Result:
    """Ask a gate that sends this answer."""
    with raw_server(send_json(content), context=issue_certificates(folder / "gate")) as gate:
        return run_ask(write_user(folder), *name_gate(gate, folder / "gate"), *arguments, stdin=stdin)


def test_the_output_is_that_of_check_and_of_predict(tmp_path: Path) -> None:
    text = create_asked_pod("capped", '{nvidia.com/gpu: "12"}') + create_asked_pod("large", '{nvidia.com/gpu: "4"}')
    state, body = build_state(CLUSTER), AskedObjects(read_manifests(text)).body.decode()
    answered = answer(body, state, policies=read_policies(POLICIES), namespace="team-a")
    asked = ask_gate_that_answers(tmp_path, answered, "-n", "team-a", stdin=text)
    (tmp_path / "asked.yaml").write_text(text)
    (tmp_path / "policies.yaml").write_text(POLICIES)
    (tmp_path / "snapshot.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": CLUSTER}))
    options = ["--policies", str(tmp_path / "policies.yaml"), "--snapshot", str(tmp_path / "snapshot.json"), "-"]
    checked, predicted = (CliRunner().invoke(root, [command, *options], input=text) for command in ("check", "predict"))
    assert asked.stdout == checked.stdout + predicted.stdout
    assert asked.exit_code == checked.exit_code == 1


@pytest.mark.parametrize(
    ("level", "strict", "code"), [("error", False, 1), ("warning", False, 0), ("warning", True, 1), ("note", True, 0)]
)
def test_the_exit_code_is_that_of_check(level: str, strict: bool, code: int, tmp_path: Path) -> None:  # noqa: FBT001  # a case
    answered = create_answer(create_object(create_finding(3, level)))
    result = ask_gate_that_answers(tmp_path, answered, *["--strict"] * strict)
    assert result.exit_code == code
    assert result.stdout.split() == (
        f"WHERE LEVEL OBJECT FINDING <stdin>:1:13 {level} Pod team-a/third spec: too much (TG201, cap gpus)".split()
    )


def test_pods_that_would_wait_fail_a_strict_ask(tmp_path: Path) -> None:
    text = create_asked_pod("large", '{nvidia.com/gpu: "4"}')
    answered = answer(text, build_state(CLUSTER), namespace="team-a")
    assert ask_gate_that_answers(tmp_path, answered, stdin=text).exit_code == 0
    assert ask_gate_that_answers(tmp_path, answered, "--strict", stdin=text).exit_code == 1


def test_an_answer_is_also_data_with_the_places_in_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("\n\n" + POD)
    answered = create_answer(create_object(create_finding(2)), later="field")
    arguments = ("--context", "here")
    as_json = ask_gate_that_answers(tmp_path, answered, "-o", "json", *arguments)
    as_yaml = ask_gate_that_answers(tmp_path, answered, "-o", "yaml", *arguments)
    content = json.loads(as_json.stdout)
    assert content == yaml.safe_load(as_yaml.stdout)
    assert content["later"] == "field"
    finding = content["objects"][0]["findings"][0]
    assert (finding["file"], finding["line"], finding["column"]) == ("<stdin>", 1, 1)
    assert as_json.stderr == ""


def test_what_is_not_asked_about_is_counted(tmp_path: Path) -> None:
    text = f"{POD}---\n{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, data: {{k: aGlkZGVu}}}}\n---\nvalues: 1\n"
    answered = create_answer(
        create_object(), notModelled=["LimitRange team-a/small"], remarks=["Pod team-a/third: each pod gets 1 x"]
    )
    result = ask_gate_that_answers(tmp_path, answered, stdin=text)
    assert "1 object of other kinds skipped: Secret 1" in result.stderr
    assert "1 document skipped that is no object of Kubernetes" in result.stderr
    assert "each pod gets 1 x" in result.stderr
    assert "LimitRange team-a/small would act on the others once it is stored" in result.stderr


def test_files_of_folders_are_asked_about_without_the_excluded_ones(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    (manifests / "charts").mkdir(parents=True)
    (manifests / "charts" / "pod.yaml").write_text("metadata: {{ .Values.name }}: {")
    (manifests / "a.yaml").write_text(POD)
    (manifests / "b.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}))
    with raw_server(
        send_json(create_answer(create_object(), create_object(create_finding(1)))),
        context=issue_certificates(tmp_path / "gate"),
    ) as gate:
        words = ["ask", str(manifests), "--exclude", "charts", "--kubeconfig", str(write_user(tmp_path))]
        result = CliRunner().invoke(root, [*words, *name_gate(gate, tmp_path / "gate")], catch_exceptions=False)
    assert result.exit_code == 1, result.stderr
    assert "2 objects in 2 files: 1 error" in result.stderr
    assert "1 file left out by --exclude" in result.stderr
    assert f"{manifests / 'b.json'}:1:1" in result.stdout


@pytest.mark.parametrize("text", ["", "{apiVersion: v1, kind: Secret, metadata: {name: s}}", "{", "a: 1"])
def test_nothing_to_ask_about_is_a_usage_error(text: str, tmp_path: Path) -> None:
    result = run_ask(write_user(tmp_path), stdin=text)
    assert result.exit_code == 2
    assert result.stderr.startswith("tallygate: ")


def test_control_characters_of_an_answer_do_not_reach_the_terminal(tmp_path: Path) -> None:
    answered = create_answer(create_object(create_finding(1, message="\x1b[2J")), remarks=["\x1b[2J"])
    result = ask_gate_that_answers(tmp_path, answered)
    assert "\x1b" not in result.output
