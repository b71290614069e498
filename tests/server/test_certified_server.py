"""The HTTPS server of asks by real sockets: users with certificates, and clients that are slow, silent or many."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kube.kubeconfig import write_kubeconfig
from tests.server.client_certificates import issue_client_certificate
from tests.server.process import eventually
from tests.server.small_cluster import Object
from tests.server.test_ask_app import ANN
from tests.server.test_asked_cluster import ASKED, run_objects
from tests.server.test_serve_asks import AskServer
from tests.server.test_slow_connections import is_cut

AUTHORITIES = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: 60000\r\n\r\n{" % ANN.encode()


class Asking:
    """The API server of a server of asks: it notes who asks. Ann has a token, and the group `dev` may create."""

    def __init__(self) -> None:
        self.asked: list[Object] = []

    def review(self, spec: Object) -> Object:
        """Return the status of a review."""
        if "token" in spec:
            return {"authenticated": spec["token"] == ANN, "user": {"username": ANN, "groups": ["dev"]}}
        self.asked.append(spec)
        access = spec["resourceAttributes"]
        return {"allowed": access["verb"] == "create" and "dev" in spec["groups"]}


@contextmanager
def run_server(folder: Path, **settings: Any) -> Iterator[tuple[AskServer, Asking]]:
    """Run a server of asks, ready, whose users' CA is that of its own certificate."""
    asking = Asking()
    with run_objects() as cluster:
        cluster.review = asking.review
        settings = {"user_ca_file": folder / "ca.crt"} | settings
        kubeconfig = write_kubeconfig(folder, cluster.server)
        with AskServer(folder, "tallygate.cli", cluster="kubeconfig", kubeconfig=kubeconfig, **settings) as server:
            with server.client() as client:
                assert eventually(lambda: client.get("/readyz").status_code == 200)
            yield server, asking


def connect(server: AskServer, sent: bytes = b"") -> ssl.SSLSocket:
    """Return a connection on which something was sent."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection = server.context.wrap_socket(plain, server_hostname="localhost")
    connection.sendall(sent)
    return connection


def ask(server: AskServer, pair: Path | None = None, token: str = "") -> httpx.Response:
    """Ask with a client certificate, a token, or both."""
    context = server.context
    if pair is not None:
        context.load_cert_chain(pair)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=f"https://localhost:{server.port}", verify=context, timeout=60) as client:
        return client.post("/v1/ask", content=ASKED, headers=headers)


def test_a_certificate_names_the_user_and_his_groups_and_a_token_is_enough_without_one(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, asking):
        bob = issue_client_certificate(tmp_path, "bob", organization="dev")
        assert ask(server, bob).status_code == 200
        (user,) = {(spec["user"], tuple(spec["groups"])) for spec in asking.asked}
        assert user == ("bob", ("dev", "system:authenticated"))
        (extra,) = {tuple(spec["extra"]) for spec in asking.asked}
        assert extra == ("authentication.kubernetes.io/credential-id",)
        asking.asked.clear()
        assert ask(server, token=ANN).status_code == 200
        assert {spec["user"] for spec in asking.asked} == {ANN}
        other = issue_client_certificate(tmp_path, "eve", organization="others")
        assert ask(server, other).status_code == 403
        assert ask(server, other, ANN).status_code == 403  # as for the API server, the certificate says who asks
        assert ask(server).status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"is_self_signed": True}, {"days": 0}, {"is_for_clients": False}], ids=["stranger", "expired", "server"]
)
def test_a_certificate_that_no_ca_of_users_signed_for_clients_now_fails_in_the_handshake(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with run_server(tmp_path) as (server, asking):
        pair = issue_client_certificate(tmp_path, "bob", organization="dev", **wrong)
        with pytest.raises(httpx.TransportError):
            ask(server, pair, ANN)
        assert not asking.asked
        assert ask(server, token=ANN).status_code == 200


def test_a_page_of_another_site_asks_nothing_by_the_certificate_of_a_browser(running: AskServer) -> None:
    context = running.context
    context.load_cert_chain(issue_client_certificate(running.folder, "bob", organization="dev"))
    for headers, status in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": f"https://localhost:{running.port}"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ):
        with httpx.Client(base_url=f"https://localhost:{running.port}", verify=context, timeout=60) as client:
            assert client.post("/v1/ask", content=ASKED, headers=headers).status_code == status


def test_a_certificate_without_a_name_is_refused_with_the_reason(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, _):
        response = ask(server, issue_client_certificate(tmp_path, "", organization="dev"))
    assert response.status_code == 401
    assert "its subject has no common name" in response.json()["message"]


def test_without_a_ca_of_users_no_certificate_counts(tmp_path: Path) -> None:
    """Let the API server have no ConfigMap with the CAs of users: tokens alone count, and the log says so."""
    with run_server(tmp_path) as (first, _):
        pair = issue_client_certificate(tmp_path, "bob", organization="dev")
        assert ask(first, pair).status_code == 200
    with run_objects() as cluster:
        cluster.review = Asking().review
        cluster.error_statuses[AUTHORITIES] = 403
        kubeconfig = write_kubeconfig(tmp_path, cluster.server)
        with AskServer(tmp_path, "tallygate.cli", cluster="kubeconfig", kubeconfig=kubeconfig) as server:
            assert eventually(lambda: ask(server, pair, ANN).status_code == 200)
            assert ask(server, pair).status_code == 401
            assert server.find_log_lines("user-authorities-unknown")


def test_silent_connections_and_headers_and_bodies_that_never_end_are_cut(tmp_path: Path) -> None:
    with run_server(tmp_path, times={"first_request": 0.3, "body": 0.3}) as (server, _):
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        connections = [connect(server), connect(server, HEAD[:30]), connect(server, HEAD)]
        for connection in connections:
            assert eventually(lambda: is_cut(connection))  # noqa: B023  # called at once
            connection.close()
        assert eventually(lambda: _is_closed(plain))
        plain.close()
        assert ask(server, token=ANN).status_code == 200


def _is_closed(plain: socket.socket) -> bool:
    """Return whether the server has closed a connection without a handshake."""
    plain.settimeout(0.01)
    with suppress(TimeoutError):
        try:
            return plain.recv(1) == b""
        except ConnectionError:
            return True
    return False


def test_many_silent_and_slow_connections_delay_no_ask(tmp_path: Path) -> None:
    limits = {"connections": 300, "connections_per_address": 200, "threads": 64}
    with run_server(tmp_path, **limits) as (server, _), ExitStack() as stack:
        before = server.status("VmRSS")
        for number in range(400):
            with suppress(OSError):
                stack.enter_context(connect(server, (b"", HEAD[:30], HEAD)[number % 3]))
        for _ in range(5):
            assert ask(server, token=ANN).elapsed.total_seconds() < 20
        assert server.monitor("/readyz").status_code == 200
        assert server.status("VmRSS") - before < 128 * 1024  # of connections up to twice the limit, which get an answer


def test_a_request_beyond_the_connections_of_an_address_gets_429_with_the_reason(tmp_path: Path) -> None:
    with run_server(tmp_path, connections_per_address=3) as (server, _):
        begun = [connect(server, HEAD) for _ in range(3)]
        silent = [connect(server) for _ in range(2)]
        assert eventually(lambda: ask(server, token=ANN).status_code == 429)
        refused = ask(server, token=ANN)
        assert (refused.headers["Retry-After"], refused.headers["Connection"]) == ("1", "close")
        assert refused.json()["message"] == (
            "too many connections of this address: at most 3 at a time. Ask again in 1 s"
        )
        assert not any(map(is_cut, begun))
        for connection in begun:
            connection.close()
        assert eventually(lambda: ask(server, token=ANN).status_code == 200)
        for connection in silent:
            connection.close()


def test_an_answered_connection_stays_open_and_every_other_response_closes_its_own(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, _):
        asked = HEAD.replace(b"60000", b"%d" % len(ASKED))[:-1] + ASKED
        kept = connect(server, asked)
        assert _read_status(kept) == 200
        kept.sendall(asked)
        assert _read_status(kept) == 200
        kept.close()
        refused = connect(server, b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert _read_status(refused) == 401
        assert eventually(lambda: is_cut(refused))
        refused.close()


def _read_status(connection: ssl.SSLSocket) -> int:
    """Return the status of the next response, which is read whole."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1)
    head = received.decode()
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length"))
    while length:
        length -= len(connection.recv(length))
    return int(head.split()[1])


def test_a_body_over_the_limit_is_refused_while_it_is_sent_and_a_long_header_is_cut(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, _):
        with server.client(headers={"Authorization": f"Bearer {ANN}"}) as client:
            assert client.post("/v1/ask", content=b"a" * (10 << 20)).status_code == 413
        long = connect(server, b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nX: ")
        with suppress(OSError):
            long.sendall(b"a" * (1 << 20))
        assert eventually(lambda: is_cut(long))
        long.close()
        assert ask(server, token=ANN).status_code == 200


_START = b"POST /v1/ask HTTP/1.1\r\nHost: a\r\n"
_MALFORMED = {
    "no request line": (b"hello SECRET\r\n\r\n", 400),
    "no host": (b"GET /SECRET HTTP/1.1\r\n\r\n", 400),
    "a blank before a colon": (_START + b"X-SECRET : a\r\n\r\n", 400),
    "two lengths": (_START + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "a length and chunks": (_START + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks of 1.0": (_START.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "another encoding": (_START + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    "another version": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a long header": (_START + b"X: " + b"SECRET" * 10_000, 431),
    "a header without an end": (_START + b"X: " + b"SECRET" * 100_000, 431),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskServer]:
    """Run one server for all cases."""
    with run_server(tmp_path_factory.mktemp("running")) as (server, _):
        yield server


@pytest.mark.parametrize("name", _MALFORMED)
def test_what_is_no_request_gets_a_status_without_a_part_of_it_and_the_end_of_the_connection(
    running: AskServer, name: str
) -> None:
    sent, status = _MALFORMED[name]
    connection = connect(running)
    with suppress(OSError):
        connection.sendall(sent)
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    connection.close()
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert b"Connection: close" in head
    assert b"nosniff" in head
    assert len(body) < 100
    assert b"SECRET" not in received


def test_every_answer_of_the_api_is_data_that_nothing_keeps(running: AskServer) -> None:
    with running.client(headers={"Authorization": f"Bearer {ANN}"}) as client:
        answers = [client.post("/v1/ask", content=ASKED), client.post("/v1/ask", content=b"["), client.get("/v1/x")]
        answers += [client.get("/healthz"), client.get("/v1/usage", headers={"Authorization": "Bearer x"})]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 200, 401]
    for answer in answers:
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"


def test_a_chunked_body_and_one_after_a_100_are_read(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, _):
        with server.client(headers={"Authorization": f"Bearer {ANN}"}) as client:
            pieces = (ASKED[start : start + 100] for start in range(0, len(ASKED), 100))
            assert client.post("/v1/ask", content=pieces).status_code == 200
        head = HEAD.replace(b"60000", b"%d" % len(ASKED))[:-1].replace(b"Host", b"Expect: 100-continue\r\nHost")
        waiting = connect(server, head)
        assert waiting.recv(25).startswith(b"HTTP/1.1 100")
        waiting.sendall(ASKED)
        received = b""
        while b"AskAnswer" not in received:
            received += waiting.recv(1 << 16)
        waiting.close()


def test_the_end_of_the_server_waits_for_an_ask_and_for_no_idle_connection(tmp_path: Path) -> None:
    with run_server(tmp_path) as (server, _):
        idle, kept = connect(server), connect(server, HEAD.replace(b"60000", b"%d" % len(ASKED))[:-1] + ASKED)
        assert _read_status(kept) == 200
        assert server.stop() == 0
        idle.close()
        kept.close()
