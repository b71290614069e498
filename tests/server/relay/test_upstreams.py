"""The relay's client of its local gate and of peers, in this process, against gates and relays as processes."""

import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from tallygate.certs.certificate_names import parse_names
from tallygate.certs.renewal import issue
from tallygate.webhook.server.relay import upstreams
from tallygate.webhook.server.relay.exchange import ExchangeResult, exchange
from tallygate.webhook.server.relay.failover import (
    PeerService,
    RelayRequest,
    SlowUpstreamError,
    UnreachableError,
    UpstreamTimeout,
)
from tallygate.webhook.server.relay.upstreams import LocalUpstream, PeerUpstream, UpstreamConnection
from tallygate.webhook.server.settings.value_types import Address
from tests.server.app_harness import MUTATE, create_review
from tests.server.process import NAMES, ServerProcess, eventually

RELAY = "tests.server.relay.relay_server"
REVIEW = RelayRequest(MUTATE, create_review())
AMPLE = UpstreamTimeout(10.0)
CA = "ca.crt"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[UpstreamConnection]]:
    """Yield a list of the connections to gates in the order of their opening; close them at the end."""
    opened: list[UpstreamConnection] = []

    class Recorded(UpstreamConnection):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

    monkeypatch.setattr(upstreams, "UpstreamConnection", Recorded)
    yield opened
    for each in opened:
        each.close()


def _local(server: ServerProcess) -> LocalUpstream:
    return LocalUpstream(Address("127.0.0.1", server.port))


def _peer(server: ServerProcess, ca_file: Path) -> PeerUpstream:
    return PeerUpstream(PeerService("localhost", server.port), ca_file, "this")


def _copy(folder: Path, target: Path) -> Path:
    """Copy certificates and keys of one folder into a new one."""
    target.mkdir()
    for file in folder.glob("*.???"):
        shutil.copy(file, target)
    return target


def test_a_connection_to_the_local_gate_stays_open_and_is_reused(
    tiny: ServerProcess, connections: list[UpstreamConnection]
) -> None:
    gate = _local(tiny)
    assert [gate.send(REVIEW, AMPLE).status for _ in range(3)] == [200] * 3
    assert [each.is_open for each in connections] == [True]


@dataclass(frozen=True)
class State:
    """The state of a gate, the reason if no review is sent to it, and whether the connection stays open."""

    is_expired: bool = False
    is_draining: bool = False
    reason: str = ""
    is_reused: bool = False


STATES = {
    "a gate with every check ready gets reviews": State(is_reused=True),
    "a gate that drains gets reviews": State(is_draining=True),
    "a gate with an expired certificate gets none": State(is_expired=True, reason="it is not ready: certificate"),
    "a gate that drains, with an expired certificate, gets none": State(
        is_expired=True, is_draining=True, reason="it is not ready: certificate"
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_readiness_but_for_its_own_end_decides_whether_a_gate_gets_reviews(
    tmp_path: Path, connections: list[UpstreamConnection], name: str
) -> None:
    state = STATES[name]
    issue(tmp_path, NAMES, datetime.now(UTC) - timedelta(days=365 if state.is_expired else 0))
    with ServerProcess(tmp_path, drain_delay="60s") as server:
        if state.is_draining:
            server.process.send_signal(signal.SIGTERM)
            assert eventually(lambda: bool(server.find_log_lines("draining")))
        gate = _local(server)
        if state.reason:
            with pytest.raises(UnreachableError, match=f"{state.reason}$"):
                gate.send(REVIEW, AMPLE)
        else:
            assert gate.send(REVIEW, AMPLE).status == 200
        assert server.get_metric("tallygate_admission_requests_total") == (0 if state.reason else 1)
        assert any(each.is_open for each in connections) == state.is_reused
        assert gate.send(REVIEW, UpstreamTimeout(10.0, allows_unready=True)).status == 200  # better than no answer


def test_a_gate_that_does_not_answer_in_time_is_asked_once(
    tiny: ServerProcess, connections: list[UpstreamConnection]
) -> None:
    """Send one request: a second would take the time that is left for a peer."""
    gate = _local(tiny)
    gate.send(REVIEW, AMPLE)
    with pytest.raises(SlowUpstreamError, match="did not answer in time"):
        gate.send(RelayRequest(MUTATE, create_review("wait-3000")), UpstreamTimeout(0.3))
    assert [each.is_open for each in connections] == [False]


def test_a_gate_that_was_restarted_answers_at_the_first_request_and_no_old_connection_is_kept(
    tmp_path: Path, connections: list[UpstreamConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    all_are_open = Barrier(3)

    class Simultaneous(UpstreamConnection):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            connections.append(self)
            all_are_open.wait(30)

    issue(tmp_path / "first", NAMES, datetime.now(UTC))
    with ServerProcess(tmp_path / "first") as first:
        gate = _local(first)
        with monkeypatch.context() as patch, ThreadPoolExecutor(3) as pool:
            patch.setattr(upstreams, "UpstreamConnection", Simultaneous)
            assert [response.status for response in pool.map(gate.send, [REVIEW] * 3, [AMPLE] * 3)] == [200] * 3
        assert [each.is_open for each in connections] == [True] * 3
        first.kill()
        folder = _copy(first.folder, tmp_path / "second")
        with ServerProcess(folder, listen=f"127.0.0.1:{first.port}"):
            assert gate.send(REVIEW, AMPLE).status == 200
    assert [each.is_open for each in connections] == [False] * 3 + [True]


@pytest.mark.usefixtures("connections")
def test_all_steps_of_one_request_have_one_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the deadlines: a gate that is slow at each step must not use up the time for a peer."""
    deadlines: list[float] = []

    def record(connection: socket.socket, request: bytes, deadline: float) -> ExchangeResult:
        deadlines.append(deadline)
        return exchange(connection, request, deadline)

    monkeypatch.setattr(upstreams, "exchange", record)
    issue(tmp_path / "first", NAMES, datetime.now(UTC))
    with ServerProcess(tmp_path / "first") as first:
        gate = _local(first)
        assert gate.send(REVIEW, AMPLE).status == 200
        assert len(deadlines) == 2  # readiness, review
        assert len(set(deadlines)) == 1
        first.kill()
        folder = _copy(first.folder, tmp_path / "second")
        with ServerProcess(folder, listen=f"127.0.0.1:{first.port}"):
            started_at = time.monotonic()
            assert gate.send(REVIEW, AMPLE).status == 200
            latest = time.monotonic() + AMPLE.seconds
    _, _, *deadlines = deadlines
    assert len(deadlines) == 3  # review on the old connection, readiness, review
    assert len(set(deadlines)) == 1
    assert started_at + AMPLE.seconds <= deadlines[0] <= latest


@pytest.mark.parametrize(
    ("connect_seconds", "timeout"),
    [pytest.param(60.0, 0.05, id="the answer"), pytest.param(0.05, 60.0, id="connecting")],
)
def test_a_gate_that_accepts_a_connection_and_is_silent_is_late_after_the_shorter_time(
    monkeypatch: pytest.MonkeyPatch, connect_seconds: float, timeout: float
) -> None:
    """Stand for a stopped gate: its kernel accepts, and no process answers the first message of TLS."""
    monkeypatch.setattr(upstreams, "_CONNECT_SECONDS", connect_seconds)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gate = LocalUpstream(Address("127.0.0.1", silent.getsockname()[1]))
        started_at = time.monotonic()
        with pytest.raises(SlowUpstreamError, match="did not answer in time"):
            gate.send(REVIEW, UpstreamTimeout(timeout))
        assert time.monotonic() - started_at < 30


@pytest.fixture
def blackhole() -> Iterator[tuple[str, int]]:
    """Yield an address that neither accepts nor rejects connections: the backlog of its socket is full."""
    with (
        socket.create_server(("127.0.0.2", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        yield listener.getsockname()


def _resolve_to(monkeypatch: pytest.MonkeyPatch, *targets: tuple[str, int]) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", target) for target in targets]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_a_peer_is_reached_by_its_second_address_when_the_first_is_silent(
    tiny: ServerProcess, monkeypatch: pytest.MonkeyPatch, blackhole: tuple[str, int]
) -> None:
    """Stand for a name with addresses of two families, of which one is not routed."""
    monkeypatch.setattr(upstreams, "_CONNECT_SECONDS", 8.0)
    peer = _peer(tiny, tiny.folder / CA)
    with monkeypatch.context() as patch:
        _resolve_to(patch, blackhole, ("127.0.0.1", tiny.port))
        assert peer.send(REVIEW, UpstreamTimeout(2.0)).status == 200


def test_all_silent_addresses_of_a_peer_together_take_the_time_to_connect(
    tiny: ServerProcess, monkeypatch: pytest.MonkeyPatch, blackhole: tuple[str, int]
) -> None:
    monkeypatch.setattr(upstreams, "_CONNECT_SECONDS", 0.5)
    peer = _peer(tiny, tiny.folder / CA)
    started_at = time.monotonic()
    with monkeypatch.context() as patch:
        _resolve_to(patch, *[blackhole] * 50)
        with pytest.raises(SlowUpstreamError, match="did not answer in time"):
            peer.send(REVIEW, AMPLE)
    assert time.monotonic() - started_at < 5.0


@pytest.fixture
def silent_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Block the resolution of names, as with silent servers; addresses need no resolution."""
    is_over, get_addresses = Event(), socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "localhost":
            is_over.wait(60.0)
        return get_addresses(host, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolve)
        yield
    is_over.set()


@pytest.mark.usefixtures("connections", "silent_resolver")
def test_a_resolver_that_is_silent_takes_the_time_to_connect_and_none_of_the_local_gate(tiny: ServerProcess) -> None:
    peer = _peer(tiny, tiny.folder / CA)
    started_at = time.monotonic()
    for _ in range(12):  # more than threads that resolve names
        with pytest.raises(SlowUpstreamError, match="did not answer in time"):
            peer.send(REVIEW, UpstreamTimeout(0.05))
    assert _local(tiny).send(REVIEW, AMPLE).status == 200
    assert time.monotonic() - started_at < 30.0


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[ServerProcess]:
    """Yield a relay without a gate, which answers 503."""
    issue(tmp_path / "stopped", NAMES, datetime.now(UTC))
    with ServerProcess(tmp_path / "stopped") as stopped:
        pass
    folder = _copy(stopped.folder, tmp_path / "lonely")
    with ServerProcess(folder, RELAY, upstream=f"127.0.0.1:{stopped.port}", decision_timeout="400ms") as relay:
        yield relay


@pytest.mark.parametrize("kind", ["local", "peer"])
def test_status_503_is_a_failure_and_its_connection_is_closed(
    lonely: ServerProcess, connections: list[UpstreamConnection], kind: str
) -> None:
    """Try another gate: the status means that this server decided nothing, and cannot now."""
    send = _local(lonely).send if kind == "local" else _peer(lonely, lonely.folder / CA).send
    with pytest.raises(UnreachableError, match=rf":{lonely.port} does not answer: it answered 503$"):
        send(REVIEW, AMPLE)
    assert [each.is_open for each in connections] == [False]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(create_review(), 200, id="200"),
        pytest.param(b"no review", 400, id="400"),
        pytest.param(create_review("undecided"), 500, id="500"),
    ],
)
@pytest.mark.parametrize("kind", ["local", "peer"])
@pytest.mark.usefixtures("connections")
def test_every_other_status_is_an_answer(tiny: ServerProcess, kind: str, body: bytes, status: int) -> None:
    send = _local(tiny).send if kind == "local" else _peer(tiny, tiny.folder / CA).send
    assert send(RelayRequest(MUTATE, body), AMPLE).status == status


def test_no_review_is_sent_to_a_peer_whose_certificate_is_for_another_name(tmp_path: Path) -> None:
    """Use the right CA: other certificates of this CA are valid for other servers only."""
    issue(tmp_path / "named", NAMES, datetime.now(UTC))
    other = _copy(tmp_path / "named", tmp_path / "other")
    issue(other, parse_names(["elsewhere", "127.0.0.1"]), datetime.now(UTC))
    ca_file = tmp_path / "named" / CA
    assert ca_file.read_bytes() == (other / CA).read_bytes()
    with ServerProcess(other) as server, ServerProcess(tmp_path / "named") as named:
        assert _peer(named, ca_file).send(REVIEW, AMPLE).status == 200
        with pytest.raises(UnreachableError, match="Hostname mismatch, certificate is not valid for 'localhost'"):
            _peer(server, ca_file).send(REVIEW, AMPLE)
        assert server.get_metric("tallygate_admission_requests_total") == 0
