"""Front proxies before a server of asks, by real sockets: who may state users, and how."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.server.client_certificates import issue_client_certificate
from tests.server.process import eventually
from tests.server.test_ask_app import ANN
from tests.server.test_asked_cluster import ASKED
from tests.server.test_certified_server import Asking, ask, run_server
from tests.server.test_serve_asks import AskServer

BOB = [("X-Remote-User", "bob"), ("X-Remote-Group", "dev")]
Headers = list[tuple[str, str]]


class FrontSetup(NamedTuple):
    """A server of asks with pages, the folder of its CA and its users', and that of the CA of front proxies."""

    server: AskServer
    asking: Asking
    users: Path
    proxies: Path

    def send(
        self, pair: Path | None, headers: Headers, method: str = "POST", path: str = "/v1/ask", content: bytes = ASKED
    ) -> httpx.Response:
        """Send a request on a connection of its own; `pair` is a client certificate with its key."""
        self.asking.asked.clear()
        context = self.server.context
        if pair is not None:
            context.load_cert_chain(pair)
        with httpx.Client(base_url=f"https://localhost:{self.server.port}", verify=context, timeout=60) as client:
            return client.request(method, path, content=content, headers=headers)

    def issue_front(self, name: str = "front", **wrong: Any) -> Path:
        """Issue a certificate of a front proxy."""
        return issue_client_certificate(self.proxies, name, organization="dev", **wrong)


def issue_proxy_authority(folder: Path) -> Path:
    """Issue a CA of front proxies; return its folder."""
    issue(folder, parse_names(["localhost"]), datetime.now(UTC))
    return folder


def send_bytes(port: int, context: ssl.SSLContext, content: bytes) -> bytes:
    """Return everything that the server sends until the connection ends, or an answer is whole."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=30)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(content)
        received = b""
        while b"AskAnswer" not in received and (piece := connection.recv(1 << 16)):
            received += piece
    return received


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontSetup]:
    """Run one server for all cases."""
    users = tmp_path_factory.mktemp("setup")
    proxies = issue_proxy_authority(users / "proxies")
    settings = {"proxy_ca_file": proxies / "ca.crt", "proxy_names": "front", "page": "on"}
    with run_server(users, **settings) as (server, asking):
        yield FrontSetup(server, asking, users, proxies)


def test_a_front_proxy_states_a_user_with_his_groups_and_extra(setup: FrontSetup) -> None:
    headers = [*BOB, ("X-Remote-Group", "a,b"), ("X-Remote-Extra-Scopes%2Fa", "1"), ("X-Remote-Extra-Scopes%2Fa", "2")]
    assert setup.send(setup.issue_front(), headers).status_code == 200
    users = {(spec["user"], tuple(spec["groups"]), str(spec["extra"])) for spec in setup.asking.asked}
    assert users == {("bob", ("dev", "a,b", "system:authenticated"), "{'scopes/a': ['1', '2']}")}


def test_the_user_of_a_front_proxy_counts_before_a_token_and_a_group_of_the_certificate_is_not_his(
    setup: FrontSetup,
) -> None:
    token = ("Authorization", f"Bearer {ANN}")
    assert setup.send(setup.issue_front(), [("X-Remote-User", "mallory"), token]).status_code == 403
    assert {spec["user"] for spec in setup.asking.asked} == {"mallory"}


def test_a_front_proxy_that_states_no_user_gets_401_also_with_a_token(setup: FrontSetup) -> None:
    for headers in ([], [("Authorization", f"Bearer {ANN}")], [("X-Remote-Group", "dev")]):
        response = setup.send(setup.issue_front(), headers)
        assert response.status_code == 401
        assert "states no user" in response.json()["message"]
        assert not setup.asking.asked


@pytest.mark.parametrize("name", ["mallory", "FRONT", ""])
def test_a_front_proxy_with_another_name_gets_401_and_is_no_user(setup: FrontSetup, name: str) -> None:
    for headers in (BOB, []):
        response = setup.send(setup.issue_front(name), headers)
        assert response.status_code == 401
        assert "is not allowed" in response.json()["message"]
        assert not setup.asking.asked


@pytest.mark.parametrize(
    "wrong", [{"is_self_signed": True}, {"days": 0}, {"is_for_clients": False}], ids=["stranger", "expired", "server"]
)
def test_a_front_proxy_that_its_ca_did_not_sign_for_clients_now_fails_in_the_handshake(
    setup: FrontSetup, wrong: dict[str, Any]
) -> None:
    with pytest.raises(httpx.TransportError):
        setup.send(setup.issue_front(**wrong), BOB)
    assert not setup.asking.asked


def test_the_headers_of_users_and_strangers_are_ignored(setup: FrontSetup) -> None:
    """Let a user's certificate have the name of a front proxy, too: its CA is another one."""
    masters = [*BOB, ("X-Remote-Group", "system:masters"), ("X-Remote-Extra-A", "1")]
    assert setup.send(None, masters).status_code == 401
    assert not setup.asking.asked
    front = issue_client_certificate(setup.users, "front", organization="others")
    assert setup.send(front, masters).status_code == 403
    assert {(spec["user"], tuple(spec["groups"])) for spec in setup.asking.asked} == {
        ("front", ("others", "system:authenticated"))
    }
    assert setup.send(None, [*masters, ("Authorization", f"Bearer {ANN}")]).status_code == 200
    assert {spec["user"] for spec in setup.asking.asked} == {ANN}


@pytest.mark.parametrize(
    ("added", "status"),
    [
        ([("X-Remote-User", "mallory")], 401),
        ([("x-remote-USER", "mallory")], 401),
        ([("X_Remote_User", "mallory")], 200),
        ([("X-Remote-User ", "mallory")], 400),
        ([(" X-Remote-User", "mallory")], 403),
        ([("X-Other", "a\r\n X-Remote-User: mallory")], 200),
    ],
    ids=["twice", "case", "underscores", "blank behind", "blank before", "folded"],
)
def test_a_second_user_by_another_form_of_the_header_is_never_stated(
    setup: FrontSetup, added: Headers, status: int
) -> None:
    """Send the request as bytes, since clients refuse such headers."""
    lines = [f"{name}: {value}" for name, value in [*BOB, *added]]
    head = "\r\n".join(["POST /v1/ask HTTP/1.1", "Host: a", f"Content-Length: {len(ASKED)}", *lines, "", ""])
    setup.asking.asked.clear()
    context = setup.server.context
    context.load_cert_chain(setup.issue_front())
    received = send_bytes(setup.server.port, context, head.encode() + ASKED)
    assert received.startswith(b"HTTP/1.1 %d" % status)
    assert b"mallory" not in received
    assert {spec["user"] for spec in setup.asking.asked} <= {"bob"}


def test_a_request_in_the_body_of_another_one_is_not_answered(setup: FrontSetup) -> None:
    """Hide a request of another user behind the first chunk, whose end the proxy would see by the length."""
    inner = b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nX-Remote-User: mallory\r\nContent-Length: 0\r\n\r\n"
    head = b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nX-Remote-User: bob\r\nX-Remote-Group: dev\r\n"
    head += b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n" % (5 + len(inner))
    setup.asking.asked.clear()
    context = setup.server.context
    context.load_cert_chain(setup.issue_front())
    received = send_bytes(setup.server.port, context, head + inner)
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1 ") == 1
    assert not setup.asking.asked


def test_a_page_of_another_site_asks_nothing_by_the_cookie_of_a_front_proxy(setup: FrontSetup) -> None:
    pair = setup.issue_front()
    for added in ([("Sec-Fetch-Site", "cross-site")], [("Sec-Fetch-Site", "same-site")], [("Origin", "https://evil")]):
        assert setup.send(pair, [*BOB, *added]).status_code == 403
        assert not setup.asking.asked
    assert setup.send(pair, [*BOB, ("Sec-Fetch-Site", "same-origin")]).status_code == 200


def test_each_stated_user_has_a_rate_of_his_own(setup: FrontSetup) -> None:
    """Send more asks of one user than he may: another one of the same proxy is answered."""
    pair = setup.issue_front()
    statuses = {setup.send(pair, [("X-Remote-User", "eager")], content=b"[").status_code for _ in range(60)}
    assert 429 in statuses
    assert setup.send(pair, [("X-Remote-User", "calm")], content=b"[").status_code == 400


def test_a_page_opens_for_the_stated_user_without_a_cookie(setup: FrontSetup) -> None:
    page = setup.send(setup.issue_front(), BOB, "GET", "/page/ask", b"")
    assert page.status_code == 200
    assert "bob" in page.text
    assert "Sign out" not in page.text


def test_the_certificates_of_front_proxies_are_read_again_and_a_ca_of_users_is_refused(tmp_path: Path) -> None:
    """Replace the CA of front proxies by another one, then by that of users: the last valid one stays."""
    first, second = (issue_proxy_authority(tmp_path / name) for name in ("first", "second"))
    file = tmp_path / "proxies.crt"
    file.write_bytes((first / "ca.crt").read_bytes())
    with run_server(tmp_path, proxy_ca_file=file) as (server, asking):
        setup = FrontSetup(server, asking, tmp_path, first)
        assert setup.send(setup.issue_front("any name"), BOB).status_code == 200
        file.write_bytes((second / "ca.crt").read_bytes())
        other = FrontSetup(server, asking, tmp_path, second).issue_front()

        def is_accepted() -> bool:
            try:
                return setup.send(other, BOB).status_code == 200
            except httpx.TransportError:
                return False

        assert eventually(is_accepted)
        file.write_bytes((tmp_path / "ca.crt").read_bytes())
        assert eventually(lambda: bool(server.find_log_lines("certificate-reload-failed")))
        assert "also signs for users" in server.log
        assert is_accepted()
        mallory = issue_client_certificate(tmp_path, "mallory", organization="others")
        assert setup.send(mallory, BOB).status_code == 403
        assert ask(server, token=ANN).status_code == 200
