"""A stranger who reaches the ports of two gates, or a log without a reader, stops no create and no probe."""

import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from socket import create_connection
from typing import Final
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from e2e.gates.piped import PipedGate
from e2e.gates.process import GateProcess
from e2e.load import STORED, Clients
from e2e.namespaces import new_namespace
from e2e.pods import pod
from e2e.ports import Cluster, Site
from e2e.rolling import WITHIN, clients_under, run_two_gates
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.waiting import until

_IDLE: Final = 1024  # connections to each replica
_IDLE_PROBES: Final = 105
_BODIES: Final = 900
_PODS: Final = 24
_LIMIT_KIB: Final = 512 << 10  # the limit of memory in the manifests
_HEAD: Final = b"POST /v1/admit/validate HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n"
_PIECE: Final = b" " * 16_384
_PIECES: Final = 64  # at a time
_PROBE_SECONDS: Final = 10.0  # a kubelet waits for 5 s, on a machine with more time
_LONG: Final = "n" * 250
_DROPPED: Final = "tallygate_log_lines_dropped_total"


@dataclass
class _Installation:
    """Two gates behind a Service, and the connections of a stranger who has no credentials."""

    replicas: Replicas
    services: list[Service] = field(default_factory=list)

    def reconnect(self) -> None:
        """Break the idle connections of the API server, which has to connect again."""
        until("the API server has no connection", lambda: self.services[0].cut() == 0, WITHIN)

    def probe(self) -> list[int]:
        """Return the statuses of both probes of each gate."""
        opener = build_opener(ProxyHandler({}))
        urls = [f"{gate.monitor}{path}" for gate in self.replicas.each for path in ("/healthz", "/readyz")]
        return [opener.open(url, timeout=_PROBE_SECONDS).status for url in urls]


class _Stranger:
    """Connections of a client without credentials; they are closed with `stack`."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._connections: list[ssl.SSLSocket] = []
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def connect(self, gates: Sequence[GateProcess], number: int, sent: bytes = b"") -> None:
        """Open this number of connections to each gate, shake hands, and send a text on each."""
        for gate in [*gates] * number:
            with suppress(OSError):
                plain = self._stack.enter_context(create_connection(("127.0.0.1", gate.port), 30))
                connection = self._stack.enter_context(self._context.wrap_socket(plain))
                connection.sendall(sent)
                connection.settimeout(0)
                self._connections.append(connection)

    def send_more(self) -> None:
        """Send on each connection as much as is taken at once."""
        for connection in self._connections:
            with suppress(OSError):
                for _ in range(_PIECES):
                    connection.send(_PIECE)


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def installation(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Installation]:
    """Run two gates with ledgers in the cluster, as behind a Service; their logs are pipes."""
    services: list[Service] = []

    def create_service(gates: Sequence[GateProcess]) -> Service:
        services.append(Service(gates))
        return services[0]

    folder = tmp_path_factory.mktemp("strangers") / "gates"
    with run_two_gates(site, own, folder, create_service, made=PipedGate) as replicas:
        yield _Installation(replicas, services)


@pytest.fixture(scope="module")
def clients(site: Site, cluster: Cluster, installation: _Installation) -> Iterator[Clients]:
    """Yield clients of a namespace under a cap, whose ledger is active."""
    assert installation.replicas.each
    with new_namespace(cluster, "case-") as name, clients_under(site, name, "many") as clients:
        yield clients


@pytest.fixture
def stranger() -> Iterator[_Stranger]:
    """Yield a client without credentials."""
    with ExitStack() as stack:
        yield _Stranger(stack)


def _create_pods(site: Site, clients: Clients, prefix: str) -> list[int]:
    """Create pods under a cap, eight at a time, and return the statuses."""
    return [answer.status for answer in clients.create([pod(site, f"{prefix}-{number}") for number in range(_PODS)])]


def _assert_served(site: Site, installation: _Installation, clients: Clients, prefix: str) -> None:
    """Check that creates on new connections of the API server are stored, and that probes pass."""
    installation.reconnect()
    assert _create_pods(site, clients, prefix) == [STORED] * _PODS
    assert installation.probe() == [200] * 4


def test_no_create_fails_beside_idle_connections(
    site: Site, installation: _Installation, clients: Clients, stranger: _Stranger
) -> None:
    stranger.connect(installation.replicas.each, _IDLE)
    _assert_served(site, installation, clients, "idle")


def test_no_create_fails_beside_large_bodies_within_the_shipped_limit_of_memory(
    site: Site, installation: _Installation, clients: Clients, stranger: _Stranger
) -> None:
    stranger.connect(installation.replicas.each, _BODIES, _HEAD)
    for turn in range(3):
        stranger.send_more()
        _assert_served(site, installation, clients, f"body-{turn}")
    assert max(_read_peak_kib(gate) for gate in installation.replicas.each) < _LIMIT_KIB


def _read_peak_kib(gate: GateProcess) -> int:
    """Return the largest resident size that a gate has had."""
    status = Path(f"/proc/{gate.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def test_no_probe_fails_beside_idle_connections_to_the_monitor_port(
    site: Site, installation: _Installation, clients: Clients
) -> None:
    with ExitStack() as stack:
        for gate in installation.replicas.each * _IDLE_PROBES:
            address = ("127.0.0.1", int(urlsplit(gate.monitor).port or 0))
            stack.enter_context(create_connection(address, 30))
        assert [installation.probe() for _ in range(5)] == [[200] * 4] * 5
        _assert_served(site, installation, clients, "probe")


def test_no_create_fails_beside_a_log_without_a_reader(
    site: Site, installation: _Installation, clients: Clients
) -> None:
    (first, *_) = gates = [gate for gate in installation.replicas.each if isinstance(gate, PipedGate)]
    for gate in gates:
        gate.is_read.clear()
    _fill_log(first)
    _assert_served(site, installation, clients, "log")
    for gate in gates:
        gate.is_read.set()
    until("the gate says what it dropped", lambda: "log-lines-dropped" in first.log(), WITHIN)
    lines = [json.loads(line) for line in first.log().splitlines() if '"log-lines-dropped"' in line]
    assert sum(line["number"] for line in lines) > 0


def _fill_log(gate: PipedGate) -> None:
    """Send reviews with long names, until the gate has dropped lines of its log."""
    review = {"request": {"uid": _LONG, "name": _LONG, "namespace": _LONG, "operation": _LONG}}
    body, stop = json.dumps(review), threading.Event()
    context = ssl.create_default_context(cafile=str(gate.certificates / "ca.crt"))

    def send() -> None:
        connection = HTTPSConnection("127.0.0.1", gate.port, context=context, timeout=30)
        while not stop.is_set():
            connection.request("POST", "/v1/admit/validate", body)
            connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        until("the gate drops lines", lambda: _count_dropped(gate) > 0, WITHIN)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _count_dropped(gate: GateProcess) -> float:
    """Return the number of lines that a gate has dropped from its log."""
    return sum(float(line.split()[-1]) for line in gate.metrics().splitlines() if line.startswith(_DROPPED))
