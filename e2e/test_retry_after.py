"""The API server sends a review again for a 5xx with `Retry-After`: as its client does, and as the gate uses it."""

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from e2e.extra_gates import require_gate_process
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE, LOOPBACK
from e2e.load import STORED, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import create, pod
from e2e.ports import Cluster, Site
from e2e.registering import register, unregister
from e2e.rolling import MEANWHILE, clients_under, create_dongle_pods, find_failed, run_two_gates, wait_for_leader
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.tcp_proxy import TcpProxy, pass_all
from tallygate.admission.webhook_configuration import UrlTarget
from tallygate.kube.config import load_kubeconfig
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

_PHASE = "validate"
_USUAL_TIMEOUT = 5  # seconds, as registered
_LOST_SECONDS = 2.0


_FAILURE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "ask another", "code": 503}


class _FailingServer(ThreadingHTTPServer):
    """A gate that allows everything, and answers the first `failures` validating attempts with 503, for each object.

    Those answers have `failure_headers`.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.certificates = folder / "certs"
        issue(self.certificates, parse_names([HERE]), datetime.now(UTC))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates / "tls.crt", self.certificates / "tls.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.reached = UrlTarget(f"https://{HERE}:{self.server_address[1]}")
        self.failures = 0
        self.failure_headers: Mapping[str, str] = {}
        self.attempts: list[tuple[str, str, str, float]] = []
        """The phase, the name of the object, the UID of the review, and the time of each attempt."""

    def log(self) -> str:
        """Return a line for each attempt, as a gate logs it."""
        return "\n".join(f'"phase":"{phase}" {name}' for phase, name, _, _ in self.attempts)

    def list_attempts(self, name: str) -> list[tuple[str, float]]:
        """Return the UIDs and times of the attempts to validate an object."""
        return [(uid, at) for phase, found, uid, at in self.attempts if (phase, found) == (_PHASE, name)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _FailingServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        phase, name = urlsplit(self.path).path.rpartition("/")[2], request["object"]["metadata"].get("name", "")
        self.server.attempts.append((phase, name, request["uid"], time.monotonic()))
        if phase == _PHASE and len(self.server.list_attempts(name)) <= self.server.failures:
            self._send(
                HTTPStatus.SERVICE_UNAVAILABLE,
                _FAILURE,
                self.server.failure_headers,
            )
        else:
            response = {"uid": request["uid"], "allowed": True}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            self._send(HTTPStatus.OK, review, {})

    def _send(self, status: HTTPStatus, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def failing_server(site: Site, cluster: Cluster, tmp_path: Path) -> Iterator[_FailingServer]:
    """Run such a gate, registered; a cluster in containers would not reach it."""
    require_gate_process(site)
    with _FailingServer(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            register(cluster, server)
            yield server
        finally:
            unregister(cluster)
            server.shutdown()


def test_a_review_with_retry_after_is_sent_again_with_its_uid_after_a_second(
    site: Site, failing_server: _FailingServer, namespace: str
) -> None:
    failing_server.failures, failing_server.failure_headers = 1, {"Retry-After": "1", "Connection": "close"}
    assert create(site, namespace, "again").stderr == ""
    (first, first_at), (second, second_at) = failing_server.list_attempts("again")
    assert first == second
    assert 1 <= second_at - first_at < _USUAL_TIMEOUT


def test_a_review_without_retry_after_is_not_sent_again(
    site: Site, failing_server: _FailingServer, namespace: str
) -> None:
    failing_server.failures, failing_server.failure_headers = 1, {"Connection": "close"}
    assert create(site, namespace, "once").stderr.endswith("failed to call webhook: ask another\n")
    assert len(failing_server.list_attempts("once")) == 1


def test_a_retry_that_comes_too_late_hides_the_message(
    site: Site, failing_server: _FailingServer, namespace: str
) -> None:
    """Show why the gate leaves the header out of the last answer."""
    failing_server.failures, failing_server.failure_headers = 100, {"Retry-After": "1"}
    assert create(site, namespace, "never").stderr.endswith(": context deadline exceeded\n")


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def stores(cluster: Cluster) -> Iterator[list[TcpProxy]]:
    """Run a proxy to the API server for each gate."""
    server = urlsplit(load_kubeconfig(cluster.kubeconfig).server)
    if server.hostname != LOOPBACK or server.port is None:
        pytest.skip("its certificate would not be good for a proxy on this machine")
    with TcpProxy(server.port) as first, TcpProxy(server.port) as second:
        yield [first, second]


@pytest.fixture(scope="module")
def gates(site: Site, own: str, stores: list[TcpProxy], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Run two gates behind a Service, each with a proxy of its own before the API server."""
    folder = tmp_path_factory.mktemp("stores")
    kubeconfigs = [[f"--kubeconfig={_write_kubeconfig(site.cluster, folder, each.port)}"] for each in stores]
    with run_two_gates(site, own, folder / "gates", Service, own_arguments=kubeconfigs) as replicas:
        yield replicas


def _write_kubeconfig(cluster: Cluster, folder: Path, port: int) -> Path:
    """Write the administrator's kubeconfig with another port of the API server, and return its path."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{port}"
    path = folder / f"kubeconfig-{port}"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def cap_clients(site: Site, namespace: str, gates: Replicas) -> Iterator[Clients]:
    """Yield clients of a namespace under a cap that is never reached."""
    with clients_under(site, namespace, "many") as clients:
        wait_for_leader(gates)
        yield clients


@contextmanager
def _lose(stores: Sequence[TcpProxy]) -> Iterator[None]:
    """Let each request to these stores break its connection for as long as the block runs."""
    for store in stores:
        store.requests = lambda: "lose"
    try:
        yield
    finally:
        for store in stores:
            store.requests = pass_all


@pytest.mark.parametrize("lost", [1, 2], ids=["one", "all"])
def test_while_replicas_lose_their_stores_for_less_than_the_api_server_waits_no_create_fails(
    site: Site, stores: list[TcpProxy], cap_clients: Clients, gates: Replicas, lost: int
) -> None:
    """Let each replica lose its store, alone or with the others: all connections may lead to the same replica."""
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        for at in range(0, len(stores), lost):
            until_more(answers, MEANWHILE)
            with _lose(stores[at : at + lost]):
                time.sleep(_LOST_SECONDS)
        until_more(answers, MEANWHILE)
    assert "the ledgers are unreachable" in gates.log()
    assert find_failed(answers) == []


def test_while_all_stores_stay_lost_the_last_answer_has_the_reason(
    site: Site, namespace: str, stores: list[TcpProxy], cap_clients: Clients, gates: Replicas
) -> None:
    (other,) = gates.each[1:]
    with _only(site.cluster, other, gates), _lose(stores):
        done = create(site, namespace, "undecided")
    assert "failed to call webhook: no decision could be made: the ledgers are unreachable: " in done.stderr
    assert cap_clients.create_one(pod(site, "undecided")).status == STORED


@contextmanager
def _only(cluster: Cluster, gate: GateProcess, gates: Replicas) -> Iterator[None]:
    """Let the API server call this gate only: for a review that goes to several, each counts its own attempts."""
    register(cluster, gate)
    try:
        yield
    finally:
        register(cluster, gates)
