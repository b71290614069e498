"""Slow connections: they delay no other request, and are cut; idle ones stay open."""

import http.client
import resource
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.app_harness import MUTATE, create_review
from tests.server.process import ServerProcess, eventually

HEAD = b"POST /v1/admit/mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{"
BEGINNINGS = {"in the body": HEAD, "near its end": HEAD + b" " * 50_000}


def begin_request(server: ServerProcess, sent: bytes) -> ssl.SSLSocket:
    """Begin a request on a new connection, and return the connection."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection = server.context.wrap_socket(plain, server_hostname="localhost")
    connection.sendall(sent)
    return connection


def is_cut(connection: ssl.SSLSocket) -> bool:
    """Return whether the server has closed the connection; otherwise send one more byte."""
    connection.settimeout(0.001)
    with suppress(TimeoutError, ssl.SSLWantReadError):
        try:
            return connection.recv(1) == b""
        except ConnectionError:
            return True
    with suppress(OSError):
        connection.sendall(b" ")
    return False


@pytest.mark.parametrize("case", BEGINNINGS)
def test_a_request_that_never_ends_is_cut_and_an_idle_connection_is_not(tmp_path: Path, case: str) -> None:
    with ServerProcess(tmp_path, times={"body": 0.3, "decision": 0.3}) as server:
        idle = http.client.HTTPSConnection("localhost", server.port, context=server.context)
        idle.request("POST", MUTATE, create_review())
        idle.getresponse().read()
        slow = begin_request(server, BEGINNINGS[case])
        assert eventually(lambda: is_cut(slow))
        idle.request("POST", MUTATE, create_review())
        assert idle.getresponse().status == 200
        idle.close()
        slow.close()


def test_slow_connections_are_cut_while_no_descriptor_is_free(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"body": 0.1, "decision": 0.1}) as server:
        slow = begin_request(server, HEAD)
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (0, hard))
        assert eventually(lambda: is_cut(slow))
        slow.close()


def test_a_header_that_never_ends_is_cut_when_an_idle_connection_would_be(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"idle": 0.3}) as server:
        slow = begin_request(server, HEAD[:30])
        assert eventually(lambda: is_cut(slow))
        slow.close()


def test_a_header_that_never_ends_does_not_delay_the_end(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"body": 0.2, "decision": 0.2}) as server:
        slow = begin_request(server, HEAD[:30])
        assert server.stop() == 0
        slow.close()


def test_two_hundred_slow_connections_delay_no_other_request(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"body": 60}) as server, server.client() as client:
        before = server.status("VmRSS")
        slow = [begin_request(server, HEAD + b" " * (50_000 * (number % 2))) for number in range(200)]
        assert eventually(lambda: server.status("Threads") > 200)
        times = [client.post(MUTATE, content=create_review()).elapsed.total_seconds() for _ in range(20)]
        assert max(times) < 5
        assert server.status("VmRSS") - before < 100 * 1024
        for connection in slow:
            connection.close()
        assert eventually(
            lambda: (
                len([line for line in server.find_log_lines("request-rejected") if line["reason"] == "truncated"])
                == 200
            )
        )


def test_a_slow_request_within_its_timeout_is_answered(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"body": 10}) as server:
        body = create_review()
        connection = http.client.HTTPSConnection("localhost", server.port, context=server.context, timeout=10)
        connection.putrequest("POST", MUTATE)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        for byte in body:
            connection.send(bytes([byte]))
        assert connection.getresponse().status == 200
        connection.close()
