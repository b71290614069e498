"""Hostile bodies and connections: the right status, a server that answers afterwards, and bounded memory."""

import gzip
import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.app_harness import MUTATE, VALIDATE, create_review
from tests.server.process import ServerProcess, eventually, run_threads

MIB = 1 << 20
_MAX_RSS_KIB = 160 * 1024


@pytest.fixture(autouse=True)
def check_server_afterwards(tiny: ServerProcess) -> Iterator[None]:
    """Check after each test that the next review is answered, and that memory is bounded."""
    yield
    with tiny.client() as client:
        assert client.post(MUTATE, content=create_review()).status_code == 200
    assert tiny.status("VmRSS") < _MAX_RSS_KIB


BODIES = {
    "a number of a million digits for a name": (b'{"request":{"uid":"u","name":' + b"9" * 1_000_000 + b"}}", 400),
    "a number of a million digits in an unknown field": (b'{"x":' + b"9" * 1_000_000 + b',"request":{"uid":"u"}}', 200),
    "a million digits after the point": (b'{"request":{"uid":"u"},"x":0.' + b"9" * 1_000_000 + b"}", 200),
    "an enormous exponent": (b'{"request":{"uid":"u"},"x":1e999999999}', 200),
    "brackets a hundred thousand deep": (b"[" * 100_000 + b"]" * 100_000, 400),
    "braces thirty thousand deep": (b'{"a":' * 30_000 + b"1" + b"}" * 30_000, 400),
    "depth in an object that stays encoded": (
        b'{"request":{"uid":"u","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        400,
    ),
    "a review cut short": (create_review()[:-5], 400),
    "a wrong type": (b'{"request":{"uid":5}}', 400),
    "a list": (b"[]", 400),
    "null": (b"null", 400),
    "nothing": (b"", 400),
    "a byte order mark": (b"\xef\xbb\xbf" + create_review(), 400),
    "UTF-16": (create_review().decode().encode("utf-16"), 400),
    "half a surrogate": (b'{"request":{"uid":"\\ud800"}}', 400),
    "nulls": (b"\0" * 1000, 400),
    "gzip": (gzip.compress(create_review()), 400),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_hostile_body_gets_its_status(tiny: ServerProcess, case: str) -> None:
    body, code = BODIES[case]
    with tiny.client() as client:
        answer = client.post(MUTATE, content=body)
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/json"


def test_a_body_of_one_byte_more_than_the_limit_is_too_large(tiny: ServerProcess) -> None:
    with tiny.client() as client:
        assert client.post(MUTATE, content=b" " * MIB).status_code == 400
        assert client.post(MUTATE, content=b" " * (MIB + 1)).status_code == 413


def test_a_compressed_body_is_rejected(tiny: ServerProcess) -> None:
    with tiny.client() as client:
        answer = client.post(MUTATE, content=gzip.compress(create_review()), headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_hundred_megabytes_are_not_read(tiny: ServerProcess, chunked: bool) -> None:  # noqa: FBT001 - a column
    """Accept a connection that is cut while the client sends; otherwise the answer has the reason."""
    connection = http.client.HTTPSConnection("localhost", tiny.port, context=tiny.context, timeout=20)
    connection.putrequest("POST", MUTATE)
    connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(100 * MIB))))
    connection.endheaders()
    piece = b"%x\r\n" % MIB + b" " * MIB + b"\r\n" if chunked else b" " * MIB
    sent = 0
    with suppress(ConnectionError, ssl.SSLError):
        for _ in range(100):
            connection.send(piece)
            sent += 1
    with suppress(ConnectionError, ssl.SSLError):
        assert connection.getresponse().status == 413
    connection.close()
    assert sent < 100
    assert eventually(lambda: any(line["reason"] == "too-large" for line in tiny.find_log_lines("request-rejected")))


CUT = b""
HEAD = b"POST /v1/admit/mutate HTTP/1.1\r\nHost: a\r\n"
RAW = {
    "no HTTP": (b"\x00\x01\x02\x03" * 100, {b"400"}),
    # Such a client still sends when it is rejected, and may lose the answer when the connection is cut.
    "a header without end": (HEAD + b"X: " + b"a" * 500_000, {b"431", CUT}),
    "a thousand headers": (HEAD + b"X: a\r\n" * 1000 + b"\r\n", {b"431"}),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", {b"400"}),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n{}", {b"400"}),
    "a chunk of no size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {b"400"}),
    "a path that is not UTF-8": (b"POST /%ff%fe HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", {b"404"}),
    "a path with a line end": (HEAD.replace(b"mutate", b"mutate%0d%0a") + b"Content-Length: 0\r\n\r\n", {b"404"}),
    "a body that ends early": (HEAD + b"Content-Length: 10\r\n\r\n{}", {b"400", CUT}),
}


@pytest.mark.parametrize("case", RAW)
def test_broken_http_is_answered_with_4xx_or_cut(tiny: ServerProcess, case: str) -> None:
    """Fail by a timeout of the read if the server neither answers nor cuts the connection."""
    sent, expected = RAW[case]
    plain = socket.create_connection(("127.0.0.1", tiny.port), timeout=20)
    with tiny.context.wrap_socket(plain, server_hostname="localhost") as connection:
        with suppress(ConnectionError, ssl.SSLError):
            connection.sendall(sent)
        if case == "a body that ends early":
            end_sending(connection)
        assert read_status(connection) in expected


def read_status(connection: ssl.SSLSocket) -> bytes:
    """Return the status of an HTTP/1.1 answer, or CUT if the connection ends before it.

    Raises:
        TimeoutError: if neither happens.
    """
    line = b""
    try:
        while len(line) < len(b"HTTP/1.1 400") and (more := connection.recv(100)):
            line += more
    except (ConnectionError, ssl.SSLEOFError):
        return CUT
    return line[9:12] if line.startswith(b"HTTP/1.1 ") else line


def end_sending(connection: ssl.SSLSocket) -> None:
    """Send a FIN, and leave the connection open for the answer."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_WR)


def test_bytes_that_are_no_tls_do_no_harm(tiny: ServerProcess) -> None:
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b""):
        with socket.create_connection(("127.0.0.1", tiny.port)) as connection:
            connection.sendall(junk)


def test_a_client_whose_body_is_rejected_unread_never_waits(tiny: ServerProcess) -> None:
    """Send many at once, so that threads wait for each other; each is cut as soon as it is rejected."""

    def send(_: int, __: threading.Event) -> None:
        connection = http.client.HTTPSConnection("localhost", tiny.port, context=tiny.context, timeout=20)
        connection.putrequest("POST", MUTATE)
        connection.putheader("Content-Length", str(100 * MIB))
        connection.endheaders()
        with suppress(ConnectionError, ssl.SSLError):
            for _ in range(100):
                connection.send(b" " * MIB)
        connection.close()

    with run_threads(12, send):
        pass


def create_large_review(number_of_containers: int) -> bytes:
    """Return a review of a pod with many small containers: decoded, it takes thirty times its bytes."""
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"cpu": "1"}}} for number in range(number_of_containers)
    ]
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "ns",
        "name": "large",
        "userInfo": {"username": "someone"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "large"},
            "spec": {"containers": containers},
        },
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def test_a_body_of_countless_empty_objects_is_rejected_before_it_is_decoded(tmp_path: Path) -> None:
    """Send a pod with 2.7 million containers, which would take 400 MiB."""
    body = create_large_review(1).replace(
        b'{"name": "c0", "resources": {"limits": {"cpu": "1"}}}', b",".join([b"{}"] * 2_700_000)
    )
    with ServerProcess(tmp_path, "tests.server.gate_server") as server, server.client() as client:
        assert client.post(VALIDATE, content=create_large_review(1)).status_code == 200
        before = server.status("VmHWM")
        answer = client.post(VALIDATE, content=body)
        assert (answer.status_code, answer.json()["message"]) == (413, "the body has more than 262144 JSON objects")
        assert server.status("VmHWM") - before < 40 * 1024  # KiB


def test_many_large_reviews_at_a_time_take_the_memory_of_one_of_the_largest_size(tmp_path: Path) -> None:
    body = create_large_review(20_000)

    def send(_: int, __: threading.Event) -> None:
        with server.client() as client:
            statuses.append(client.post(f"{VALIDATE}?timeout=240s", content=body, timeout=300).status_code)

    statuses: list[int] = []
    with ServerProcess(tmp_path, "tests.server.gate_server", body_limit="2Mi", times={"decision": 300}) as server:
        before = server.status("VmHWM")
        with run_threads(8, send):
            pass
        assert statuses == [200] * 8
        assert len(body) > MIB
        assert server.status("VmHWM") - before < 100 * 1024  # KiB; eight decoded at a time take 200 MiB
