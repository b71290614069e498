"""A stranger who reaches the ports of the gate stops no create and no probe."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from e2e.gates.process import GateProcess
from e2e.load import STORED, Clients
from e2e.pods import pod
from e2e.ports import Gate, Site

_IDLE, _IDLE_PROBES, _BODIES = 1024, 105, 900
_PODS = 24
_HEAD = b"POST /v1/admit/validate HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n"
_PIECE = b" " * 16_384


@pytest.fixture
def process(gate: Gate) -> GateProcess:
    """Return the gate as a process on this machine, whose ports are reachable from here."""
    if not isinstance(gate, GateProcess):
        pytest.skip("the ports of this gate are not reachable from here")
    return gate


class _Stranger:
    """Connections of a client without credentials."""

    def __init__(self, stack: ExitStack, address: tuple[str, int]) -> None:
        self._stack = stack
        self._address = address
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def connect(self, sent: bytes = b"") -> None:
        """Open a connection, shake hands, and send as much as is taken at once."""
        with suppress(OSError):
            plain = self._stack.enter_context(socket.create_connection(self._address, 30))
            connection = self._stack.enter_context(self._context.wrap_socket(plain))
            connection.sendall(sent)
            connection.settimeout(0)
            for _ in range(64 if sent else 0):
                connection.send(_PIECE)


@contextmanager
def _open_stranger(port: int) -> Iterator[_Stranger]:
    with ExitStack() as stack:
        yield _Stranger(stack, ("127.0.0.1", port))


def _create_pods(site: Site, namespace: str, prefix: str) -> list[int]:
    """Create pods on new connections of the API server, and return the statuses."""
    with Clients(site.cluster, namespace) as clients:
        answers = clients.create([pod(site, f"{prefix}-{number}") for number in range(_PODS)])
    return [answer.status for answer in answers]


def _probe(url: str) -> list[int]:
    """Return the statuses of probes, each within the second that a kubelet waits for ten times over."""
    opener = build_opener(ProxyHandler({}))
    return [opener.open(f"{url}{path}", timeout=10).status for path in ("/healthz", "/readyz")]


def test_no_create_fails_beside_idle_connections(site: Site, namespace: str, process: GateProcess) -> None:
    with _open_stranger(process.port) as stranger:
        for _ in range(_IDLE):
            stranger.connect()
        assert _create_pods(site, namespace, "idle") == [STORED] * _PODS
        assert _probe(process.monitor) == [200, 200]


def test_no_create_fails_beside_large_bodies(site: Site, namespace: str, process: GateProcess) -> None:
    with _open_stranger(process.port) as stranger:
        for _ in range(_BODIES):
            stranger.connect(_HEAD)
        assert _create_pods(site, namespace, "body") == [STORED] * _PODS
        assert _probe(process.monitor) == [200, 200]


def test_no_probe_fails_beside_idle_connections_to_the_monitor_port(process: GateProcess) -> None:
    monitor = urlsplit(process.monitor)
    with ExitStack() as stack:
        for _ in range(_IDLE_PROBES):
            to = (str(monitor.hostname), int(monitor.port or 80))
            stack.enter_context(socket.create_connection(to, 30))
        assert [_probe(process.monitor) for _ in range(5)] == [[200, 200]] * 5
