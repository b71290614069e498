"""The monitor port: probes are answered whatever else comes to it."""

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from tallygate.server.monitor_server import MonitorLimits, start_monitor
from tallygate.server.settings.value_types import Address
from tests.server.process import ServerProcess, eventually

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = b"x" * (12 << 20)  # more than the buffers of a socket take


class Application:
    """A WSGI application whose metrics are large, and do not come before `released`."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Answer a request."""
        start_response("200 OK", [])
        if environ["PATH_INFO"] != "/metrics":
            return [b"ok"]
        self.entered.set()
        self.released.wait()
        return [LARGE]


class Port:
    """A monitor port in this process."""

    def __init__(self, application: Application, limits: MonitorLimits) -> None:
        self.number = start_monitor(application, Address("127.0.0.1", 0), limits)
        self._stack = ExitStack()

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Return a new connection on which a text was sent."""
        connection = self._stack.enter_context(socket.create_connection(("127.0.0.1", self.number), timeout=60))
        with suppress(OSError):  # the server has closed it for another one
            connection.sendall(sent)
        return connection

    def connect_idle(self, number: int, sent: bytes = b"") -> list[socket.socket]:
        """Return new connections in the order in which the server accepts them."""
        return [self.connect(sent) for _ in range(number)]

    def probe(self) -> int:
        """Return the status of a probe on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=60)
        self._stack.callback(connection.close)
        connection.request("GET", "/readyz")
        return connection.getresponse().status

    def close(self) -> None:
        """Close all connections."""
        self._stack.close()


@contextmanager
def open_port(application: Application | None = None, **limits: float) -> Iterator[Port]:
    """Yield a port with limits."""
    port = Port(application or Application(), MonitorLimits(**limits))  # type: ignore[arg-type]  # whole where needed
    try:
        yield port
    finally:
        port.close()


def receive(connection: socket.socket) -> bytes:
    """Return a whole response of `Application` to a probe: headers and body may come one after the other."""
    content = b""
    while not content.endswith(b"ok") and (part := connection.recv(100)):
        content += part
    return content


def ends(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection."""
    connection.settimeout(0.001)
    try:
        return connection.recv(1 << 20) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_probes_are_answered_beside_more_idle_connections_than_the_limit(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        for _ in range(600):
            address = ("127.0.0.1", server.monitor_port)
            stack.enter_context(socket.create_connection(address, timeout=60)).sendall(REQUEST[:10])
        assert [server.monitor(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


def test_at_the_limit_the_oldest_connection_without_a_request_is_closed() -> None:
    with open_port(connections=4) as port:
        idle = port.connect_idle(4)
        assert port.probe() == 200
        assert eventually(lambda: ends(idle[0]))
        assert not any(map(ends, idle[1:]))


@pytest.mark.parametrize("sent", [b"", REQUEST[:10]], ids=["nothing", "a part of a request"])
def test_a_connection_that_was_answered_outlives_those_that_sent(sent: bytes) -> None:
    with open_port(connections=4) as port:
        scraper = port.connect(REQUEST)
        assert receive(scraper)
        others = port.connect_idle(20, sent)
        assert eventually(lambda: ends(others[0]))
        assert port.probe() == 200
        scraper.settimeout(60)
        scraper.sendall(REQUEST)
        assert b"200 OK" in receive(scraper)


def test_a_first_request_that_does_not_end_in_time_is_cut_and_an_answered_connection_is_not() -> None:
    with open_port(first_request_timeout=0.1, idle_timeout=600.0) as port:
        answered = port.connect(REQUEST)
        assert receive(answered)
        slow = [port.connect(), port.connect(REQUEST[:10])]
        assert eventually(lambda: all(map(ends, slow)))
        assert not ends(answered)


def test_an_answered_connection_is_cut_after_its_idle_time() -> None:
    with open_port(idle_timeout=0.1) as port:
        answered = port.connect(REQUEST)
        assert receive(answered)
        assert eventually(lambda: ends(answered))


def test_probes_do_not_wait_for_metrics() -> None:
    application = Application()
    with open_port(application) as port:
        port.connect_idle(5, REQUEST.replace(b"healthz", b"metrics"))
        assert application.entered.wait(60)
        assert port.probe() == 200
        application.released.set()


def test_readers_that_leave_too_much_unread_are_cut() -> None:
    application = Application()
    application.released.set()
    with open_port(application, max_unread_bytes=len(LARGE)) as port:
        readers = port.connect_idle(4, REQUEST.replace(b"healthz", b"metrics"))
        assert eventually(lambda: sum(map(is_reset, readers)) >= 2)
        assert port.probe() == 200


def is_reset(connection: socket.socket) -> bool:
    """Return whether the server has ended a connection, by the state of the socket: nothing is read."""
    closed_by_server = (7, 8)  # CLOSE, CLOSE_WAIT (linux/tcp_states.h)
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in closed_by_server


def test_probes_are_answered_on_descriptors_that_select_does_not_take() -> None:
    with ExitStack() as stack:
        for _ in range(1100):
            stack.callback(os.close, os.dup(0))
        with open_port() as port:
            assert port.probe() == 200
