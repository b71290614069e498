"""What a server of asks finds of its gate: the checks that it can make, the others by what they need, certificates."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tallygate.cli.doctor.check_result import Check, CheckResult, CheckStatus
from tallygate.cli.doctor.command import CHECKS
from tallygate.cli.doctor.facts import NotRead, Unavailable, WorkloadFacts
from tallygate.cli.serve.gate_checks import inspect_gate, run_check
from tallygate.kube.config import load_kubeconfig
from tallygate.server.asking.answerer import OpenedState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.gate_inspection import CertificateRecord, Inspection, InspectionRequest
from tallygate_certs.authority import KeyPair, create_ca
from tests.admission.case import parse_policies
from tests.answers.asked_clusters import NO_HOURS, build_state
from tests.cli.doctor.healthy_gate import create_facts, encode_pem
from tests.cli.doctor.scripted_server import run_server
from tests.cli.doctor.test_doctor_command import GateCluster, list_response, object_response

OWN = "/api/v1/namespaces/tallygate-system"
NOT_RUN = {
    "asked": "needs a pass over all pods and nodes",
    "reachable": "needs create on pods, for two that are a dry run",
    "backstop": "needs list on ValidatingAdmissionPolicies and their bindings",
    "opaque-names": "needs a pass over all pods and nodes",
    "stored-policies": "needs list on ConfigMaps in the gate's namespace",
    "workload-kinds": "needs list on all CustomResourceDefinitions",
}
POLICIES = Path("policies/default.yaml").read_text(encoding="utf-8")


def write_pair(pair: KeyPair, folder: Path) -> Path:
    """Write a certificate and its key, and return the path of the file with both."""
    path = folder / "pair.pem"
    key = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(encode_pem(pair) + key)
    return path


@contextmanager
def run_gate(pair: Path) -> Iterator[int]:
    """Run a server with this certificate, and yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=True)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class InspectedGate:
    """A healthy gate in a cluster, which a test may change before `inspect`, such as the port of its monitor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = GateCluster()
        self.pair = write_pair(self.cluster.chain, folder)
        data = {"url": "https://tallygate.tallygate-system.svc:443", "ca.crt": self.cluster.authority.decode()}
        self.cluster.responses[f"{OWN}/configmaps/tallygate-ask"] = object_response({"data": data})
        kinds = ("Namespace", "DeviceClass", "ResourceQuota")
        self.state = build_state(
            [
                {"kind": kind, "metadata": {"name": "kube-system", "namespace": "kube-system", "uid": kind}, "spec": {}}
                for kind in kinds
            ]
        )
        self.refusal: AskError | None = None
        self.monitor_port: int | None = None

    @contextmanager
    def open_state(self, _: float) -> Iterator[OpenedState]:
        """Yield the state, or refuse it."""
        if self.refusal:
            raise self.refusal
        yield OpenedState(self.state, datetime.now(UTC), NO_HOURS)

    def inspect(self) -> Inspection:
        """Return what is found of the gate, whose pods are this machine."""
        with run_gate(self.pair) as port, run_server(self.folder, self.cluster) as kubeconfig:
            config = load_kubeconfig(kubeconfig)
            ports = {"https": port, "monitor": self.monitor_port or urlsplit(config.server).port}
            container = {"name": "tallygate", "ports": [{"name": n, "containerPort": p} for n, p in ports.items()]}
            pods: list[dict[str, Any]] = [
                {
                    "metadata": {"name": name, "namespace": "tallygate-system"},
                    "spec": {"containers": [container]},
                    "status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
                }
                for name in ("a", "b")
            ]
            self.cluster.responses[f"{OWN}/pods"] = list_response(*pods)
            request = (config, "tallygate-system", self.pair, parse_policies(POLICIES), self.open_state)
            return inspect_gate(InspectionRequest(*request))


@pytest.fixture
def gate(tmp_path: Path) -> InspectedGate:
    """Return a healthy gate."""
    return InspectedGate(tmp_path)


def test_each_check_is_run_or_says_what_it_needs(gate: InspectedGate) -> None:
    found = {each.check: each for each in gate.inspect().checks}
    assert list(found) == [check.name for check in CHECKS]
    assert {name: each.reason for name, each in found.items() if each.result == "NOT RUN"} == NOT_RUN
    rest = {name: each for name, each in found.items() if name not in NOT_RUN}
    assert {name: each.reason for name, each in rest.items() if each.result != "PASS"} == {}
    assert found["replicas"].reason == "2 replicas ready: a, b"


def test_an_inspection_reads_no_secret_and_sends_no_pod(gate: InspectedGate) -> None:
    gate.inspect()
    paths = {path.partition("?")[0] for path in gate.cluster.requested_paths}
    forbidden = ("/secrets", "/proxy", "/api/v1/pods", "/api/v1/nodes", "namespaces/default/pods")
    assert not [path for path in paths if any(part in path for part in forbidden)]
    assert "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" not in paths
    assert "/readyz" in paths


def list_certificates(inspection: Inspection) -> list[CertificateRecord]:
    """Return the certificates, that of the gate first."""
    gate, own = inspection.certificates
    assert (gate.server, own.server.partition(",")[0]) == ("the gate, tallygate.tallygate-system.svc", "serve-ask")
    return [gate, own]


def test_certificates_are_those_that_are_served_and_that_the_published_authorities_verify(gate: InspectedGate) -> None:
    for found in list_certificates(gate.inspect()):
        assert (found.trusted, found.problem) == (True, None)
        assert "tallygate.tallygate-system.svc" in found.names
        assert found.issuer is not None
        assert found.not_after is not None
        assert found.days_left is not None
        assert found.not_after.startswith(f"{gate.cluster.chain.certificate.not_valid_after_utc:%Y-%m-%d}")
        assert found.days_left > 7
    assert "PRIVATE" not in json.dumps([str(each) for each in gate.inspect()])


def test_a_certificate_of_another_authority_is_not_trusted(gate: InspectedGate, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    gate.pair = write_pair(create_ca(datetime.now(UTC)), other)
    inspection = gate.inspect()
    assert [each.trusted for each in list_certificates(inspection)] == [False, False]
    (trusted,) = [each for each in inspection.checks if each.check == "trusted"]
    assert trusted.result == "FAIL"


def test_without_an_answer_of_any_replica_the_checks_of_replicas_are_not_run(gate: InspectedGate) -> None:
    """Expect no verdict about a gate that the network may keep away from this server."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gate.monitor_port = closed.getsockname()[1]
    found = {each.check: each for each in gate.inspect().checks}
    for name in ("replicas", "policies", "watches", "ledgers", "certificate", "clocks"):
        assert (found[name].result, found[name].reason.partition(" (")[0]) == (
            "NOT RUN",
            "needs an answer of a replica of the gate at its port monitor",
        )
    assert found["trusted"].result == "PASS"


def test_what_cannot_be_read_is_no_pass(gate: InspectedGate) -> None:
    gate.cluster.responses = {"/version": gate.cluster.responses["/version"]}
    gate.refusal = AskError(HTTPStatus.SERVICE_UNAVAILABLE, "the pods of the cluster are not known at present")
    inspection = gate.inspect()
    assert {each.result for each in inspection.checks if each.check in {"trusted", "quotas", "exempt"}} <= {"UNKNOWN"}
    shown, own = list_certificates(inspection)
    assert (shown.trusted, own.trusted) == (None, None)
    assert shown.problem == "nothing of the gate is registered"
    assert own.problem is not None


def test_a_long_reason_and_a_long_command_are_bounded() -> None:
    result = CheckResult(CheckStatus.WARN, "r" * 2100, ("c" * 2001, "kubectl"))
    record = run_check(Check("quotas", "t", "f", lambda _: result), create_facts())
    assert record.reason == f"{'r' * 2000} … and 100 characters more"
    assert list(record.fix) == ["kubectl"]


def test_a_check_without_a_fact_that_was_left_out_counts_only_with_a_fault() -> None:
    checks = {check.name: check for check in CHECKS}
    left_out = NotRead("more")
    facts = replace(create_facts(), replicas=left_out, workloads=WorkloadFacts((), left_out, left_out))
    for name in ("certificate", "replicas", "workload-kinds"):
        record = run_check(checks[name], facts)
        assert (record.result, record.reason) == ("NOT RUN", "needs more")
    assert run_check(checks["conditions"], facts).result == "PASS"
    late = replace(facts, now=datetime(2100, 1, 1, tzinfo=UTC))
    assert run_check(checks["certificate"], late).result == "FAIL"
    unknown = replace(create_facts(), replicas=Unavailable("403"))
    assert run_check(checks["replicas"], unknown).result == "UNKNOWN"
