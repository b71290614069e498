"""Connections of strangers to the relay take no place of an API server's."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.haproxy import CONFIGURATION, HaproxyProcess, create_controller
from tests.server.app_harness import MUTATE
from tests.server.process import eventually
from tests.server.relay.pods import Pod, post

_MAX_RSS_KIB = 160 * 1024


@contextmanager
def open_idle(pod: Pod, counts: dict[str, int]) -> Iterator[list[ssl.SSLSocket]]:
    """Yield connections that send nothing after their handshake; `counts` has the number to try by address."""
    context = pod.gate.context
    with ExitStack() as stack:
        opened = []
        for address, count in counts.items():
            for _ in range(count):
                # `wrap_socket` of a connection that is rejected already would leave the socket open (ssl.py of 3.11.7).
                connection = stack.enter_context(context.wrap_socket(socket.socket(), server_hostname="localhost"))
                connection.settimeout(60)
                connection.bind((address, 0))
                with suppress(OSError):  # rejected: the address has too many
                    connection.connect(("127.0.0.1", pod.relay.port))
                    opened.append(connection)
        yield opened


def post_once(pod: Pod) -> int:
    """Send a review on a connection of its own, and return the status."""
    with pod.client() as client:
        return post(client).status_code


@pytest.mark.parametrize(
    "counts",
    [{"127.0.0.1": 1100}, {"127.0.0.2": 1400}, {"127.0.0.2": 900, "127.0.0.3": 900}],
    ids=["the API server's address", "one address", "two addresses"],
)
def test_reviews_pass_beside_many_idle_connections(pod: Pod, counts: dict[str, int]) -> None:
    assert post_once(pod) == 200
    with open_idle(pod, counts) as idle:
        assert len(idle) < 1537
        assert [post_once(pod) for _ in range(10)] == [200] * 10
        status = Path(f"/proc/{pod.relay.pid}/status").read_text()
        rss = int(status.partition("VmRSS:")[2].split()[0])
        assert rss < _MAX_RSS_KIB


def send_without_length(pod: Pod) -> int:
    """Send more than the gate reads in chunks, and return the status."""
    chunks = (b"x" * 65536 for _ in range(160))
    with pod.client() as client:
        return client.post(MUTATE, content=chunks).status_code


@pytest.mark.parametrize(
    ("send", "status"),
    [
        (send_without_length, 411),
        (lambda pod: post_named(pod, "undecided", "5s"), 500),
        (lambda pod: post_named(pod, "wait-3000", "1s"), 504),
    ],
    ids=["a body without a length", "no decision", "a decision that takes too long"],
)
def test_no_request_of_a_stranger_takes_the_gate_from_the_others(
    pod: Pod, send: Callable[[Pod], int], status: int
) -> None:
    for _ in range(4):
        assert send(pod) == status
        assert (pod.relay.is_up(), post_once(pod)) == (True, 200)


def post_named(pod: Pod, name: str, timeout: str) -> int:
    """Send a review with this name and this timeout, and return the status."""
    with pod.client() as client:
        return post(client, name, timeout=timeout).status_code


def test_a_connection_that_sends_nothing_is_closed(tmp_path: Path, pod: Pod) -> None:
    """Shorten the time for it."""
    text = CONFIGURATION.read_text()
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(
        text.replace("timeout client 10s", "timeout client 1s").replace("http-request 10s", "http-request 1s")
    )
    gate = pod.gate
    with HaproxyProcess(gate.port, gate.monitor_port, configuration=configuration) as relay:
        create_controller(relay.folder, gate.folder).reconcile()
        relay.start()
        silent = socket.create_connection(("127.0.0.1", relay.port), 60)
        shaken = gate.context.wrap_socket(
            socket.create_connection(("127.0.0.1", relay.port), 60), server_hostname="localhost"
        )
        with silent, shaken:
            assert eventually(lambda: is_closed(silent))
            assert eventually(lambda: is_closed(shaken))


def is_closed(connection: socket.socket) -> bool:
    """Return whether the relay has closed a connection, after what it has sent."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1 << 16) == b""
    except (TimeoutError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
