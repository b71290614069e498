"""Reviews by the relay, before gates that are killed, stopped and rolled."""

import http.client
import signal
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from tallygate_certs.renewal import issue
from tests.haproxy import CONFIGURATION, LOOPBACK, HaproxyProcess, create_controller
from tests.server.app_harness import MUTATE, VALIDATE, create_review
from tests.server.process import NAMES, ServerProcess, eventually, run_threads
from tests.server.relay.pods import Pod, copy_certificates, post

_RELAYED = {"Tallygate-Relayed": "1"}


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
    """Send it with a length, and in chunks: the gate would end such a request while HAProxy still sends it."""
    too_large = b"x" * ((8 << 20) + 1)
    with pod.client() as client:
        assert client.post(MUTATE, content=too_large).status_code == 413
        chunks = (too_large[at : at + 65536] for at in range(0, len(too_large), 65536))
        assert client.post(MUTATE, content=chunks).status_code == 411
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
        assert time.monotonic() - begun < 4  # of 5 s, the last of which is that of Retry-After
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
