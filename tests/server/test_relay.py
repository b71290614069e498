"""The relay: a real HAProxy with the configuration of deploy/, before gates that are killed, stopped and rolled."""

import http.client
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import httpx
import pytest

from tallygate.certs.renewal import issue, renew
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.server.controllers.relay_controller import RelayError
from tests.haproxy import CONFIGURATION, LOOPBACK, HaproxyProcess, create_controller
from tests.server.app_harness import MUTATE, VALIDATE, Log, create_review
from tests.server.process import NAMES, ServerProcess, eventually, run_threads

_RELAYED = {"Tallygate-Relayed": "1"}


class Pod:
    """A gate, its relay, and the controller that gives the relay the gate's certificate."""

    def __init__(self, folder: Path, peer: int = 1) -> None:
        self.gate = ServerProcess(folder)
        self.relay = HaproxyProcess(self.gate.port, self.gate.monitor_port, peer)
        self.log = Log()
        self.controller = create_controller(self.relay.folder, folder, self.log)
        self.controller.reconcile()

    def __enter__(self) -> Self:
        self.relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.__exit__()
        self.gate.kill()

    def client(self) -> httpx.Client:
        """Return a client of the relay."""
        context = ssl.create_default_context(cafile=str(self.gate.folder / "ca.crt"))
        return httpx.Client(base_url=f"https://localhost:{self.relay.port}", verify=context, timeout=40)

    def restart_gate(self) -> None:
        """Start the gate again, on its ports."""
        listen, monitor = (f"{LOOPBACK}:{port}" for port in (self.gate.port, self.gate.monitor_port))
        self.gate = ServerProcess(self.gate.folder, listen=listen, monitor=monitor)


def copy_certificates(source: Path, target: Path) -> Path:
    """Copy all files of a folder of certificates; return the new folder."""
    shutil.copytree(source, target)
    return target


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Return a folder with certificates that all gates share."""
    folder = tmp_path / "certs"
    issue(folder, NAMES, datetime.now(UTC))
    return folder


@pytest.fixture
def pod(tmp_path: Path, certificates: Path) -> Iterator[Pod]:
    """Yield a gate with its relay, without a peer."""
    with Pod(copy_certificates(certificates, tmp_path / "gate")) as running:
        yield running


@pytest.fixture
def peer(tmp_path: Path, certificates: Path) -> Iterator[ServerProcess]:
    """Yield another gate, with a certificate of the same CA."""
    with ServerProcess(copy_certificates(certificates, tmp_path / "peer")) as running:
        yield running


@pytest.fixture
def pod_with_peer(tmp_path: Path, certificates: Path, peer: ServerProcess) -> Iterator[Pod]:
    """Yield a gate with its relay, which knows a peer."""
    with Pod(copy_certificates(certificates, tmp_path / "gate"), peer.port) as running:
        yield running


def open_connection(relay: HaproxyProcess, gate: ServerProcess) -> ssl.SSLSocket:
    """Return a connection to a relay."""
    connection = socket.create_connection((LOOPBACK, relay.port), timeout=40)
    return gate.context.wrap_socket(connection, server_hostname="localhost")


def listens(relay: HaproxyProcess) -> bool:
    """Return whether a relay accepts connections."""
    try:
        socket.create_connection((LOOPBACK, relay.port), timeout=40).close()
    except ConnectionRefusedError:
        return False
    return True


def ask(connection: ssl.SSLSocket) -> int:
    """Send a review on this very connection; return the status of the answer."""
    body = create_review()
    head = f"POST {MUTATE}?timeout=5s HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def post(client: httpx.Client, name: str = "one", *, timeout: str = "5s", path: str = MUTATE) -> httpx.Response:
    """Send a review as an API server does, with its timeout; return the response."""
    return client.post(f"{path}?timeout={timeout}", content=create_review(name))


def test_the_answer_of_a_gate_is_forwarded_unchanged(pod: Pod) -> None:
    with pod.client() as relayed, pod.gate.client() as direct:
        for name, path in [
            ("one", MUTATE),
            ("deny", VALIDATE),
            ("undecided", MUTATE),
            ("crash", MUTATE),
            ("one", "/x"),
        ]:
            expected, answer = post(direct, name, path=path), post(relayed, name, path=path)
            assert (answer.status_code, answer.content) == (expected.status_code, expected.content)
        assert relayed.post(MUTATE, content=b"no review").status_code == 400


def test_a_body_that_is_larger_than_the_gate_accepts_is_rejected(pod: Pod) -> None:
    """Send it with a length, and in chunks: then the gate ends the request while HAProxy still sends it."""
    too_large = b"x" * ((8 << 20) + 1)
    with pod.client() as client:
        assert client.post(MUTATE, content=too_large).status_code == 413
        chunks = (too_large[at : at + 65536] for at in range(0, len(too_large), 65536))
        assert client.post(MUTATE, content=chunks).status_code in {413, 502}
        assert post(client).status_code == 200


def test_a_peer_answers_while_the_gate_is_down_and_the_gate_after_its_restart(
    pod_with_peer: Pod, peer: ServerProcess
) -> None:
    with pod_with_peer.client() as client:
        assert post(client).status_code == 200
        pod_with_peer.gate.kill()
        assert post(client, "deny").json()["response"]["allowed"] is False
        pod_with_peer.restart_gate()
        assert eventually(pod_with_peer.relay.is_up)
        peer.kill()
        assert post(client).status_code == 200


def test_a_review_survives_a_gate_that_is_killed_during_its_evaluation(pod_with_peer: Pod) -> None:
    statuses: list[int] = []

    def send(number: int, _: threading.Event) -> None:
        with pod_with_peer.client() as client:
            statuses.append(post(client, f"wait-{300 + number}").status_code)

    with run_threads(4, send):
        assert eventually(lambda: len(pod_with_peer.gate.find_log_lines("waiting")) == 4)
        pod_with_peer.gate.kill()
    assert statuses == [200] * 4


def test_a_peer_answers_within_the_timeout_when_the_gate_hangs(pod_with_peer: Pod) -> None:
    with pod_with_peer.client() as client:
        assert post(client).status_code == 200
        pod_with_peer.gate.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        assert post(client, timeout="5s").status_code == 200
        assert time.monotonic() - begun < 5
        assert eventually(lambda: not pod_with_peer.relay.is_up())  # later reviews do not wait for it
        pod_with_peer.gate.process.send_signal(signal.SIGCONT)


def test_a_gate_alone_is_down_for_seconds_and_the_answer_asks_for_a_retry_at_once(pod: Pod) -> None:
    pod.gate.kill()
    with pod.client() as client:
        begun = time.monotonic()
        answer = post(client)
        assert time.monotonic() - begun < 3
        assert (answer.status_code, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
        assert (answer.json()["kind"], answer.json()["message"]) == ("Status", "no gate answered")
        pod.restart_gate()
        assert eventually(lambda: post(client).status_code == 200)


def test_an_idle_connection_outlives_the_time_that_a_request_may_take_to_arrive(tmp_path: Path, pod: Pod) -> None:
    """Shorten that time, and let a request that never arrives whole measure it on a connection of its own.

    An API server keeps an idle connection for 90 s. A review that it sends while the relay closes one is lost.
    """
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(CONFIGURATION.read_text().replace("timeout http-request 10s", "timeout http-request 1s"))
    gate = pod.gate
    with HaproxyProcess(gate.port, gate.monitor_port, configuration=configuration) as relay:
        create_controller(relay.folder, gate.folder).reconcile()
        relay.start()
        with open_connection(relay, gate) as idle, open_connection(relay, gate) as slow:
            assert ask(idle) == 200
            slow.sendall(b"POST / HTTP/1.1\r\n")
            assert slow.recv(1024).startswith(b"HTTP/1.1 408 ")
            assert ask(idle) == 200


def test_an_idle_connection_outlives_the_start_of_a_graceful_end_and_is_closed_by_its_next_answer(pod: Pod) -> None:
    with open_connection(pod.relay, pod.gate) as idle:
        assert ask(idle) == 200
        pod.relay.begin_end()
        assert eventually(lambda: not listens(pod.relay))
        assert ask(idle) == 200
        assert idle.recv(1024) == b""
    assert pod.relay.wait() == 0


def test_a_review_of_another_relay_goes_to_the_gate_here_only(pod_with_peer: Pod, peer: ServerProcess) -> None:
    with pod_with_peer.client() as client:
        assert client.post(MUTATE, content=create_review(), headers=_RELAYED).status_code == 200
        pod_with_peer.gate.kill()
        assert client.post(MUTATE, content=create_review(), headers=_RELAYED).status_code == 503
    assert peer.get_metric("tallygate_admission_requests_total") == 0


def test_relays_that_lead_to_each_other_end_soon_when_no_gate_lives(pod: Pod, tmp_path: Path) -> None:
    folder = copy_certificates(pod.gate.folder, tmp_path / "second")
    with Pod(folder, pod.relay.port) as second:
        for each in (pod, second):
            each.gate.kill()
        with second.client() as client:
            assert post(client).status_code == 503
        tries = pod.relay.read_metric("haproxy_frontend_http_requests_total", proxy="reviews")
        assert 1 <= tries <= 6  # 1 + 1 retry of the first stage, with 1 + 2 of the second each


def test_a_gate_that_drains_decides_and_connections_move_to_other_replicas(pod_with_peer: Pod) -> None:
    gate = pod_with_peer.gate
    with ServerProcess(gate.folder, listen=f"{LOOPBACK}:0", drain_delay="60s") as ending:
        relay = HaproxyProcess(ending.port, ending.monitor_port)
        with relay:
            create_controller(relay.folder, gate.folder).reconcile()
            relay.start()
            client = httpx.Client(base_url=f"https://localhost:{relay.port}", verify=gate.context, timeout=20)
            with client:
                assert "connection" not in post(client).headers
                ending.process.send_signal(signal.SIGTERM)
                assert eventually(lambda: post(client).headers.get("connection") == "close")
                assert (post(client).status_code, relay.is_up()) == (200, True)


def test_a_gate_that_is_not_ready_gets_no_review_while_a_peer_is_ready(
    tmp_path: Path, certificates: Path, peer: ServerProcess
) -> None:
    """Use a gate with an expired certificate; one that has just started would defer what a peer can decide."""
    old = tmp_path / "old"
    issue(old, NAMES, datetime.now(UTC) - timedelta(days=365))
    with ServerProcess(old) as unready, HaproxyProcess(unready.port, unready.monitor_port, peer.port) as relay:
        create_controller(relay.folder, certificates).reconcile()
        relay.start()
        assert eventually(lambda: not relay.is_up())
        client = httpx.Client(base_url=f"https://localhost:{relay.port}", verify=peer.context, timeout=20)
        with client:
            assert post(client).status_code == 200
        assert unready.get_metric("tallygate_admission_requests_total") == 0


def test_a_peer_with_a_certificate_of_another_ca_gets_no_review(
    tmp_path: Path, pod_with_peer: Pod, peer: ServerProcess
) -> None:
    other = tmp_path / "other"
    issue(other, NAMES, datetime.now(UTC))
    (pod_with_peer.gate.folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
    pod_with_peer.controller.reconcile()
    pod_with_peer.gate.kill()
    with httpx.Client(base_url=f"https://localhost:{pod_with_peer.relay.port}", verify=peer.context) as client:
        assert post(client).status_code == 503
    assert peer.get_metric("tallygate_admission_requests_total") == 0


def list_replaced(pod: Pod) -> list[str]:
    """Return the files whose content replaced that of the running relay."""
    return [line["file"] for line in pod.log.lines if line["event"] == "relay-certificate-replaced"]


def read_served_certificate(port: int) -> str:
    """Return the certificate that a server presents, as PEM."""
    return ssl.get_server_certificate((LOOPBACK, port))


def test_a_new_certificate_and_a_new_ca_replace_those_of_a_running_relay(tmp_path: Path, pod_with_peer: Pod) -> None:
    pod = pod_with_peer
    first = read_served_certificate(pod.relay.port)
    other = tmp_path / "other"
    issue(other, NAMES, datetime.now(UTC))
    for name in ("tls.crt", "tls.key"):
        (pod.gate.folder / name).write_bytes((other / name).read_bytes())
    bundle = (pod.gate.folder / "ca.crt").read_bytes() + b"\n\n" + (other / "ca.crt").read_bytes()
    (pod.gate.folder / "ca.crt").write_bytes(bundle)
    pod.controller.reconcile()
    assert list_replaced(pod) == ["tls.pem", "ca.pem"]
    assert read_served_certificate(pod.relay.port) != first
    pod.controller.reconcile()
    assert len(list_replaced(pod)) == 2  # there is nothing to do a second time
    pod.gate.kill()
    with httpx.Client(
        base_url=f"https://localhost:{pod.relay.port}", verify=ssl.create_default_context(cafile=str(other / "ca.crt"))
    ) as client:
        assert post(client).status_code == 200  # the peer still has a certificate of the first CA


def test_a_relay_that_starts_again_reads_the_current_files(pod: Pod, certificates: Path) -> None:
    first = read_served_certificate(pod.relay.port)
    pod.relay.stop()
    renew(certificates, datetime.now(UTC), force=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(certificates / name, pod.gate.folder)
    pod.controller.reconcile()
    assert list_replaced(pod) == []
    pod.relay.start()
    assert read_served_certificate(pod.relay.port) != first


def test_the_files_are_for_the_gates_user_only_and_are_written_without_a_relay(
    tmp_path: Path, certificates: Path
) -> None:
    directory = tmp_path / "relay"
    directory.mkdir()
    create_controller(directory, certificates).reconcile()
    assert {each.name: each.stat().st_mode & 0o777 for each in directory.iterdir()} == {
        "tls.pem": 0o600,
        "ca.pem": 0o600,
    }
    assert (directory / "ca.pem").read_bytes() == (certificates / "ca.crt").read_bytes()


def test_without_a_ca_the_relay_trusts_no_peer_but_starts(
    tmp_path: Path, certificates: Path, peer: ServerProcess
) -> None:
    folder = copy_certificates(certificates, tmp_path / "gate")
    (folder / "ca.crt").unlink()
    gate = ServerProcess(folder)
    with gate, HaproxyProcess(gate.port, gate.monitor_port, peer.port) as relay:
        create_controller(relay.folder, folder).reconcile()
        relay.start()
        with httpx.Client(base_url=f"https://localhost:{relay.port}", verify=peer.context, timeout=20) as client:
            assert post(client).status_code == 200
            gate.kill()
            assert post(client).status_code == 503


def test_the_peers_name_is_resolved_again_after_half_a_minute(pod_with_peer: Pod) -> None:
    """Give the relay an address where nothing listens, as if the Service had been created again."""
    relay, gate, now = pod_with_peer.relay, pod_with_peer.gate, [0.0]
    controller = create_controller(relay.folder, gate.folder, monotonic=lambda: now[0])
    controller.reconcile()
    relay.command("set server any_gate/peer addr 127.0.0.9")
    now[0] = 29.0
    controller.reconcile()
    assert "peer 127.0.0.9 " in relay.command("show servers state any_gate")
    gate.kill()
    with pod_with_peer.client() as client:
        assert post(client).status_code == 503
        now[0] = 31.0
        controller.reconcile()
        assert post(client).status_code == 200


def test_a_directory_that_is_missing_is_an_error_with_its_remedy(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(RelayError) as raised:
        create_controller(tmp_path / "absent", certificates).reconcile()
    assert str(raised.value) == (
        f"relay_dir: {tmp_path}/absent/tls.pem cannot be written: No such file or directory; "
        "mount a volume in memory there"
    )


def test_a_relay_that_keeps_its_certificate_is_an_error_with_its_answer(tmp_path: Path, certificates: Path) -> None:
    """Use a relay with another configuration: it has no such certificate."""
    directory = tmp_path / "relay"
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "admin.sock"))
        listener.listen()

        def answer(_: int, __: threading.Event) -> None:
            for _ in range(3):
                connection, _address = listener.accept()
                with connection:
                    while connection.recv(65536):
                        pass
                    connection.sendall(b"Can't replace a certificate which is not referenced by the configuration!\n\n")

        with run_threads(1, answer), pytest.raises(RelayError) as raised:
            create_controller(directory, certificates).reconcile()
    assert "the relay keeps its old tls.pem: Can't replace a certificate" in str(raised.value)


def test_certificates_that_the_gate_cannot_use_never_reach_the_relay(pod: Pod) -> None:
    first = read_served_certificate(pod.relay.port)
    (pod.gate.folder / "tls.key").write_bytes(b"")
    with pytest.raises(TallygateError):
        pod.controller.reconcile()
    assert read_served_certificate(pod.relay.port) == first


def test_a_graceful_end_finishes_the_reviews_in_progress(pod: Pod) -> None:
    statuses: list[int] = []

    def send(_: int, __: threading.Event) -> None:
        with pod.client() as client:
            statuses.append(post(client, "wait-700").status_code)

    with run_threads(4, send):
        assert eventually(lambda: len(pod.gate.find_log_lines("waiting")) == 4)
        pod.relay.begin_end()
        assert pod.relay.wait() == 0
    assert statuses == [200] * 4
