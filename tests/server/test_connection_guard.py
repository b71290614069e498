"""Connections that occupy a place for nothing are closed, and those with reviews are not."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tallygate.server.https.connection_guard import measure_handshake
from tests.server.app_harness import MUTATE, create_review
from tests.server.process import ServerProcess, eventually, remains

BODY = create_review()
REVIEW = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (MUTATE.encode(), len(BODY), BODY)
SLOW = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{" % MUTATE.encode()
CLOSED = "tallygate_connections_closed_total"


class Client:
    """Connections to a server, by address of the client."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._context = server.context
        self._stack = ExitStack()

    def connect_plain(self, address: str = "127.0.0.1") -> socket.socket:
        """Return a connection on which nothing is sent."""
        to = ("127.0.0.1", self._server.port)
        return self._stack.enter_context(socket.create_connection(to, 60, source_address=(address, 0)))

    def connect(self, sent: bytes = b"", address: str = "127.0.0.1") -> ssl.SSLSocket:
        """Return a connection after its handshake, on which a text was sent."""
        plain = self.connect_plain(address)
        connection = self._stack.enter_context(self._context.wrap_socket(plain, server_hostname="localhost"))
        connection.sendall(sent)
        return connection

    def close(self) -> None:
        """Close all connections."""
        with suppress(OSError):
            self._stack.close()


@contextmanager
def serve(folder: Path, **settings: object) -> Iterator[tuple[ServerProcess, Client]]:
    """Yield a server and connections to it."""
    with ServerProcess(folder, "tests.server.tiny", **settings) as server:
        client = Client(server)
        try:
            yield server, client
        finally:
            client.close()


def read_answer(connection: ssl.SSLSocket) -> http.client.HTTPResponse:
    """Return a response, which is read to its end."""
    connection.settimeout(60)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer


def send_review(connection: ssl.SSLSocket) -> int:
    """Send a review, and return the status of its answer."""
    connection.settimeout(60)
    connection.sendall(REVIEW)
    return read_answer(connection).status


def is_cut(connection: socket.socket) -> bool:
    """Return whether the server has closed the connection."""
    connection.settimeout(0.001)
    try:
        return connection.recv(1) == b""
    except (TimeoutError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def is_cut_after_a_byte(connection: ssl.SSLSocket) -> bool:
    """Send one byte more, and return whether the server has closed the connection."""
    with suppress(OSError):
        connection.sendall(b"a")
    return is_cut(connection)


def test_a_connection_without_a_request_is_cut_in_time_and_an_answered_one_is_not(tmp_path: Path) -> None:
    with serve(tmp_path, times={"first_request": 0.3}) as (server, client):
        answered = client.connect()
        assert send_review(answered) == 200
        silent = [client.connect_plain(), client.connect(), client.connect(SLOW[:30])]
        assert eventually(lambda: all(map(is_cut, silent)))
        assert remains(lambda: not is_cut(answered), 1.0)
        assert send_review(answered) == 200
        assert server.get_metric(CLOSED) == 3


def test_one_review_makes_a_connection_an_answered_one(tmp_path: Path) -> None:
    """Use several, since a sweep may see a connection for the first time before or after its review."""
    with serve(tmp_path, times={"first_request": 0.3}) as (_, client):
        answered = [client.connect() for _ in range(10)]
        assert [send_review(connection) for connection in answered] == [200] * 10
        assert remains(lambda: not any(map(is_cut, answered)), 1.0)


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", REVIEW.replace(BODY, b"x" * len(BODY))], ids=["no path", "no review"]
)
def test_a_response_that_answers_no_review_ends_its_connection(tmp_path: Path, sent: bytes) -> None:
    with serve(tmp_path) as (_, client):
        connection = client.connect(sent)
        assert read_answer(connection).will_close
        assert eventually(lambda: is_cut(connection))


def test_the_header_of_a_later_request_has_the_time_of_the_first(tmp_path: Path) -> None:
    with serve(tmp_path, times={"first_request": 0.3}) as (_, client):
        connection = client.connect()
        assert send_review(connection) == 200
        connection.sendall(REVIEW[:10])
        assert eventually(lambda: is_cut_after_a_byte(connection))


def test_at_the_limit_the_oldest_silent_connection_is_closed_for_a_new_one(tmp_path: Path) -> None:
    with serve(tmp_path, connections=10, times={"first_request": 3600}) as (_, client):
        answered = client.connect()
        assert send_review(answered) == 200
        oldest = client.connect()
        # The kernel's times have ticks, and a busy server ends two handshakes in either order: the oldest is so by far.
        assert remains(lambda: not is_cut(oldest), 1.0)
        later = [client.connect() for _ in range(8)]
        new = client.connect()
        assert send_review(new) == 200
        assert eventually(lambda: is_cut(oldest))
        assert remains(lambda: not any(map(is_cut, [answered, *later])))


def test_answered_connections_that_are_idle_are_closed_if_no_other_is_left(tmp_path: Path) -> None:
    with serve(tmp_path, connections=10) as (_, client):
        answered = []
        for _ in range(12):
            answered.append(client.connect())
            assert send_review(answered[-1]) == 200
        assert eventually(lambda: sum(map(is_cut, answered)) == 2)
        assert not is_cut(answered[-1])


def test_a_new_connection_is_not_closed_for_older_ones_that_are_idle(tmp_path: Path) -> None:
    with serve(tmp_path, connections=5, times={"first_request": 3600}) as (_, client):
        for _ in range(5):
            assert send_review(client.connect()) == 200
        new = client.connect()
        assert remains(lambda: not is_cut(new), 1.0)
        assert send_review(new) == 200


def test_one_address_has_a_bounded_number_of_connections(tmp_path: Path) -> None:
    with serve(tmp_path, connections_per_address=5, times={"first_request": 3600}) as (_, client):
        first = [client.connect(address="127.0.0.2") for _ in range(5)]
        # The kernel's clock does not tell connections of one tick apart.
        assert remains(lambda: not any(map(is_cut, first)), 1.0)
        later = [client.connect(address="127.0.0.2") for _ in range(7)]
        other = [client.connect() for _ in range(5)]
        assert eventually(lambda: sum(map(is_cut, [*first, *later])) == 7)
        assert all(map(is_cut, first))
        assert not any(map(is_cut, later[-2:]))
        assert remains(lambda: not any(map(is_cut, other)))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_reviews_are_answered_beside_more_idle_connections_than_the_limit(tmp_path: Path, address: str) -> None:
    with serve(tmp_path) as (_, client):
        kept = client.connect()
        assert send_review(kept) == 200
        for _ in range(1300):
            client.connect(address=address)
        assert [send_review(client.connect()) for _ in range(20)] == [200] * 20
        assert send_review(kept) == 200


def test_bodies_that_never_end_leave_threads_for_reviews(tmp_path: Path) -> None:
    with serve(tmp_path, threads=8, times={"body": 3600, "first_request": 3600}) as (_, client):
        slow = [client.connect(SLOW, "127.0.0.2") for _ in range(40)]
        assert [send_review(client.connect()) for _ in range(3)] == [200] * 3
        assert any(map(is_cut, slow))


def test_a_measured_handshake_has_the_bytes_that_a_client_receives(tmp_path: Path) -> None:
    with serve(tmp_path) as (server, client):
        measured = measure_handshake(("127.0.0.1", server.port))
        connection = client.connect()
        assert eventually(lambda: abs(count_received(connection) - measured) < 50)
        before = count_received(connection)
        assert send_review(connection) == 200
        assert count_received(connection) - before > 250


def count_received(connection: ssl.SSLSocket) -> int:
    """Return the bytes that the kernel has received on a connection (tcpi_bytes_received)."""
    information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    return int.from_bytes(information[128:136], "little")


def test_the_handshake_of_a_port_that_nothing_serves_is_unknown() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert measure_handshake(unused.getsockname()) == 0
