"""A relay as a process, before gates as processes that are killed, stopped and restarted."""

import shutil
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallygate.certs.renewal import issue
from tallygate.webhook.server.relay.failover import PeerService, RelayRequest, UnreachableError, UpstreamTimeout
from tallygate.webhook.server.relay.upstreams import PeerUpstream
from tests.server.app_harness import MUTATE, VALIDATE, create_review
from tests.server.process import NAMES, ServerProcess, eventually, run_threads

RELAY = "tests.server.relay.relay_server"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[ServerProcess]:
    """Yield the local gate of the relay."""
    with ServerProcess(_create_folder(tmp_path, "gate")) as running:
        yield running


def _create_folder(parent: Path, name: str) -> Path:
    """Create a folder for a process, with the certificates of the first process; return its path."""
    folder = parent / name
    folder.mkdir()
    for file in parent.glob("gate/*.???"):
        shutil.copy(file, folder)
    return folder


def _start_relay(gate: ServerProcess, name: str = "relay", **settings: object) -> ServerProcess:
    """Start a relay of this gate, with its certificates."""
    return ServerProcess(_create_folder(gate.folder.parent, name), RELAY, upstream=f"127.0.0.1:{gate.port}", **settings)


def _create_peer_settings(peer: ServerProcess, gate: ServerProcess) -> dict[str, Any]:
    """Return settings of a relay with this peer, whose certificate the gate's CA has to sign."""
    return {"peers": peer.port, "peers_ca_file": gate.folder / "ca.crt"}


def _restart(gate: ServerProcess) -> ServerProcess:
    """Start the gate again, on its port."""
    return ServerProcess(_create_folder(gate.folder.parent, "again"), listen=f"127.0.0.1:{gate.port}")


def _get_failure(relay: ServerProcess) -> str:
    """Return the logged reason why the local gate is unreachable."""
    assert eventually(lambda: bool(relay.find_log_lines("upstream-unreachable")))
    return str(relay.find_log_lines("upstream-unreachable")[0]["message"])


def test_the_answer_of_a_gate_is_forwarded_unchanged(gate: ServerProcess) -> None:
    requests = [
        (MUTATE, create_review()),
        (VALIDATE, create_review("deny")),
        (MUTATE, b"no review"),
        (MUTATE, create_review("undecided")),
        (MUTATE, create_review("unreachable")),
        (f"{MUTATE}/%0d%0a?timeout=x", create_review()),
        ("/v1/admit/nothing", create_review()),
    ]
    with _start_relay(gate) as relay, relay.client() as relayed, gate.client() as direct:
        for path, body in requests:
            expected, response = direct.post(path, content=body), relayed.post(path, content=body)
            assert (response.status_code, response.content) == (expected.status_code, expected.content)
            for header in ("content-type", "retry-after", "connection"):
                assert response.headers.get(header) == expected.headers.get(header)
            assert ("retry-after" in response.headers) == (b"unreachable" in body)


def test_it_has_its_own_health_and_metrics_and_forwards_nothing_else(gate: ServerProcess) -> None:
    with _start_relay(gate) as relay, relay.client() as client:
        client.post(MUTATE, content=create_review())
        assert client.get(MUTATE).status_code == 405
        assert client.get("/metrics").status_code == 404
        assert sorted(client.get("/readyz").json()["checks"]) == ["certificate", "serving"]
        assert relay.get_metric("tallygate_relay_requests_total") == 1


def test_a_body_that_is_too_large_is_not_forwarded(gate: ServerProcess) -> None:
    with _start_relay(gate, body_limit="1Ki") as relay, relay.client() as client:
        assert client.post(MUTATE, content=b"x" * 1025).status_code == 413
        assert relay.get_metric("tallygate_relay_requests_total") == 0


def test_a_review_survives_a_gate_that_is_killed_during_its_evaluation(gate: ServerProcess) -> None:
    answers: list[int] = []

    def post(number: int, _: threading.Event) -> None:
        with relay.client() as client:
            client.post(MUTATE, content=create_review())  # the relay has an open connection to the gate from now on
            answers.append(client.post(MUTATE, content=create_review(f"wait-{300 + number}")).status_code)

    with _start_relay(gate) as relay, run_threads(4, post):
        assert eventually(lambda: len(gate.find_log_lines("waiting")) == 4)
        gate.kill()
        with _restart(gate):
            assert eventually(lambda: len(answers) == 4)
    assert answers == [200] * 4


def test_a_peer_answers_while_the_gate_is_down_and_the_gate_after_its_restart(
    tmp_path: Path, gate: ServerProcess
) -> None:
    with ServerProcess(_create_folder(tmp_path, "peer")) as peer:
        relay = _start_relay(gate, **_create_peer_settings(peer, gate))
        with relay, relay.client() as client:
            gate.kill()
            assert client.post(MUTATE, content=create_review("deny")).json()["response"]["allowed"] is False
            assert eventually(lambda: bool(relay.find_log_lines("upstream-unreachable")))
            with _restart(gate):
                peer.kill()
                assert client.post(MUTATE, content=create_review()).status_code == 200
                assert eventually(lambda: bool(relay.find_log_lines("upstream-reachable")))


def test_a_gate_that_is_not_ready_gets_no_review_while_a_peer_is_ready(tmp_path: Path, gate: ServerProcess) -> None:
    """Use a gate with an expired certificate; a gate that has just started would defer what a peer can decide."""
    old = tmp_path / "old"
    issue(old, NAMES, datetime.now(UTC) - timedelta(days=365))
    folder = _create_folder(tmp_path, "first")
    with ServerProcess(old) as unready:
        with ServerProcess(
            folder, RELAY, upstream=f"127.0.0.1:{unready.port}", **_create_peer_settings(gate, gate)
        ) as relay:
            with relay.client() as client:
                assert client.post(MUTATE, content=create_review()).status_code == 200
            assert "it is not ready: certificate" in _get_failure(relay)
        assert unready.get_metric("tallygate_admission_requests_total") == 0
        lonely = ServerProcess(_create_folder(tmp_path, "lonely"), RELAY, upstream=f"127.0.0.1:{unready.port}")
        with lonely, lonely.client() as client:
            assert (
                client.post(f"{MUTATE}?timeout=1.4s", content=create_review()).status_code == 200
            )  # better than no answer
            assert _get_failure(lonely)


def test_a_gate_that_drains_gets_reviews(tmp_path: Path, gate: ServerProcess) -> None:
    """Start a peer as well: it gets no review."""
    ending = ServerProcess(_create_folder(tmp_path, "ending"), drain_delay="60s")
    with ending, _start_relay(ending, "second", **_create_peer_settings(gate, gate)) as relay, relay.client() as client:
        ending.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: bool(ending.find_log_lines("draining")))
        assert [client.post(MUTATE, content=create_review()).status_code for _ in range(3)] == [200] * 3
        assert relay.find_log_lines("upstream-unreachable") == []
    assert gate.get_metric("tallygate_admission_requests_total") == 0


def test_a_peer_with_a_certificate_of_another_ca_gets_no_review(tmp_path: Path, gate: ServerProcess) -> None:
    foreign_ca = tmp_path / "foreign_ca"
    foreign_ca.mkdir()
    with ServerProcess(foreign_ca) as peer:
        peers = _create_peer_settings(peer, gate)
        with _start_relay(gate, decision_timeout="2s", **peers) as relay, relay.client() as client:
            gate.kill()
            answer = client.post(MUTATE, content=create_review())
        assert answer.status_code == 503
        assert "Connection refused" in answer.json()["message"]
        assert "CERTIFICATE_VERIFY_FAILED" in answer.json()["message"]
        assert peer.get_metric("tallygate_admission_requests_total") == 0


@pytest.mark.parametrize(
    "content", [pytest.param(None, id="not there"), pytest.param(b"", id="empty"), pytest.param(b"\xff", id="no PEM")]
)
def test_a_peer_gets_no_review_if_its_ca_file_cannot_be_read(
    content: bytes | None, tmp_path: Path, gate: ServerProcess
) -> None:
    ca_file = tmp_path / "authorities"
    if content is not None:
        ca_file.write_bytes(content)
    peers = PeerUpstream(PeerService("localhost", gate.port), ca_file, "this")
    with pytest.raises(UnreachableError, match=rf"localhost:{gate.port} is not asked: .*authorities cannot be read"):
        peers.send(RelayRequest(MUTATE, create_review()), UpstreamTimeout(5.0))


def test_a_blocked_gate_leaves_time_for_a_peer(tmp_path: Path, gate: ServerProcess) -> None:
    with ServerProcess(_create_folder(tmp_path, "peer")) as peer:
        peers = _create_peer_settings(peer, gate)
        with _start_relay(gate, decision_timeout="2s", **peers) as relay, relay.client() as client:
            gate.process.send_signal(signal.SIGSTOP)
            assert client.post(MUTATE, content=create_review()).status_code == 200
            assert peer.get_metric("tallygate_admission_requests_total") == 1


def test_two_relays_without_a_gate_do_not_call_each_other_for_ever(gate: ServerProcess) -> None:
    with _start_relay(gate, "far") as far:
        peers = _create_peer_settings(far, gate)
        with _start_relay(gate, "near", decision_timeout="700ms", **peers) as near, near.client() as client:
            gate.kill()
            answer = client.post(MUTATE, content=create_review())
        assert answer.status_code == 503
        assert answer.json()["message"].startswith("no gate answered: ")
        assert 0 < far.get_metric("tallygate_relay_requests_total") < 100


def test_a_relay_answers_before_the_deadline_of_its_client(gate: ServerProcess) -> None:
    with _start_relay(gate) as relay, relay.client() as client:
        gate.kill()
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"{MUTATE}?timeout=10s", content=create_review(), timeout=0.5)
        answer = client.post(f"{MUTATE}?timeout=1s", content=create_review(), timeout=1.0)
    assert answer.status_code == 503


def test_it_waits_for_certificates_that_do_not_exist_yet(tmp_path: Path, gate: ServerProcess) -> None:
    later, folder = tmp_path / "later", _create_folder(tmp_path, "relay")
    later.mkdir()
    (folder / "log").touch()

    def write(_: int, __: threading.Event) -> None:
        assert eventually(lambda: '"waiting"' in (folder / "log").read_text())
        for name in ("tls.key", "tls.crt"):
            (later / f".{name}").write_bytes((folder / name).read_bytes())
            (later / f".{name}").rename(later / name)

    files = {"tls_cert": later / "tls.crt", "tls_key": later / "tls.key"}
    with run_threads(1, write), ServerProcess(folder, RELAY, upstream=f"127.0.0.1:{gate.port}", **files) as relay:
        assert relay.find_log_lines("waiting")[0]["files"] == [str(each) for each in files.values()]


def test_a_few_large_bodies_are_forwarded_at_a_time_and_others_wait(gate: ServerProcess) -> None:
    """Bound the memory: otherwise a client could fill it while no gate answers."""
    codes: list[int] = []

    def post(_: int, __: threading.Event) -> None:
        with relay.client() as client:
            codes.append(client.post(f"{MUTATE}?timeout=3s", content=large).status_code)

    large = create_review(object={"of": "x" * (7 << 20)})
    with _start_relay(gate) as relay:
        gate.kill()
        before = relay.status("VmHWM")
        with run_threads(24, post):
            pass
        grown = relay.status("VmHWM") - before  # KiB
    assert set(codes) == {503}
    assert grown < 320 << 10  # usually 240 MiB, as malloc keeps what threads free; all bodies at once take 410
