"""The pages of the gate on loopback: for one browser alone, with the credentials of the user, and no token in it."""

import http.client
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.ask.gate_client import GateError, GateResponse
from tallygate.cli.ask.page_proxy import COOKIE, MAX_BODY_BYTES, BrowserRequest, PageProxy, PageServer
from tests.cli.ask.gates import issue_certificates, name_gate, send_status, write_user
from tests.kube.raw_server import RawServer, full_response, raw_server

PAGE = GateResponse(
    200,
    (("Content-Type", "text/html"), ("Content-Security-Policy", "x"), ("Set-Cookie", "a=b"), ("Server", "gate")),
    b"<p>page</p>",
)


class Gate:
    """A gate that answers each request by one page, and its requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Mapping[str, str], bytes | None]] = []

    def forward(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> GateResponse:
        """Answer a request."""
        self.requests.append((method, target, headers, body))
        return PAGE


class Browser:
    """A browser that has opened the printed address, unless it `is_other`."""

    def __init__(self, gate: Gate, *, is_other: bool = False) -> None:
        self.proxy = PageProxy(gate.forward, 8000)
        self.url = urlsplit(self.proxy.start_url)
        self.cookie = ""
        if not is_other:
            self.started = self.send("GET", f"{self.url.path}?{self.url.query}")
            self.cookie = dict(self.started.headers)["Set-Cookie"].partition(";")[0]

    def send(self, method: str, target: str, body: bytes | None = None, **headers: str) -> GateResponse:
        """Send a request with the cookie; headers have `_` for `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        cookie = {"cookie": self.cookie} if self.cookie else {}
        return self.proxy.answer(BrowserRequest(method, target, {"host": self.url.netloc, **cookie, **given}, body))


def test_the_printed_address_counts_once_and_gives_a_cookie_without_a_token() -> None:
    gate = Gate()
    browser = Browser(gate)
    assert browser.url.hostname
    assert browser.url.hostname.endswith(".localhost")
    headers = dict(browser.started.headers)
    assert browser.started.status == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(headers["Set-Cookie"].split("; "))
    assert headers["Referrer-Policy"] == "no-referrer"
    assert browser.send("GET", f"{browser.url.path}?{browser.url.query}").status == 403
    assert not gate.requests
    assert browser.send("GET", "/").headers == (("Location", "/page/"),)


def test_the_browser_with_the_cookie_gets_the_pages_of_the_gate() -> None:
    gate = Gate()
    browser = Browser(gate)
    response = browser.send(
        "GET", "/page/caps?o=json", accept="text/html", user_agent="x", sec_fetch_site="same-origin"
    )
    assert (response.status, response.body) == (200, b"<p>page</p>")
    assert response.headers == (("Content-Type", "text/html"), ("Content-Security-Policy", "x"))
    own = {"sec-fetch-site": "same-origin"}
    assert gate.requests == [("GET", "/page/caps?o=json", {"accept": "text/html", **own}, None)]


def test_a_form_is_passed_on_with_its_type() -> None:
    gate = Gate()
    Browser(gate).send("POST", "/page/ask", b"x=1", content_type="a/b", sec_fetch_site="same-origin")
    own = {"sec-fetch-site": "same-origin"}
    assert gate.requests == [("POST", "/page/ask", {"content-type": "a/b", **own}, b"x=1")]


REFUSED: dict[str, tuple[str, str, dict[str, str], int]] = {
    "without the cookie": ("GET", "/page/caps", {"cookie": ""}, 403),
    "with another cookie": ("GET", "/page/caps", {"cookie": f"{COOKIE}=x"}, 403),
    "with no text": ("GET", "/page/caps", {"cookie": f"{COOKIE}=ä"}, 403),
    "by another name, as after DNS rebinding": ("GET", "/page/caps", {"host": "evil.example.com:8000"}, 421),
    "by the address of loopback": ("GET", "/page/caps", {"host": "127.0.0.1:8000"}, 421),
    "a link of another site": ("GET", "/page/caps", {"sec_fetch_site": "cross-site"}, 403),
    "a page of another port": ("GET", "/page/caps", {"sec_fetch_site": "same-site"}, 403),
    "a form of another site": ("POST", "/page/ask", {"sec_fetch_site": "cross-site"}, 403),
    "a form of another origin": ("POST", "/page/ask", {"origin": "http://evil.example.com"}, 403),
    "a form without an origin": ("POST", "/page/ask", {}, 403),
    "another address of the gate": ("POST", "/v1/ask", {"sec_fetch_site": "same-origin"}, 404),
    "a path that leaves the pages": ("GET", "/pages", {}, 404),
    "a wrong code": ("GET", "/start?code=x", {}, 403),
    "no code": ("GET", "/start", {}, 403),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_else_reaches_the_gate(case: str) -> None:
    gate = Gate()
    method, target, headers, status = REFUSED[case]
    response = Browser(gate).send(method, target, b"" if method == "POST" else None, **headers)
    assert response.status == status
    assert not gate.requests


def test_another_browser_does_not_use_the_code_up() -> None:
    browser = Browser(Gate(), is_other=True)
    assert browser.send("GET", "/start?code=ä").status == 403
    assert browser.send("GET", f"{browser.url.path}?{browser.url.query}").status == 200


def test_a_gate_that_does_not_answer_is_a_sentence() -> None:
    gate = Gate()
    browser = Browser(gate)

    def fail(*_: Any) -> GateResponse:
        raise GateError("https://gate cannot be asked: <b>")

    browser.proxy._forward = fail  # noqa: SLF001  a gate that ends meanwhile
    response = browser.send("GET", "/page/caps")
    assert (response.status, dict(response.headers)["Content-Type"]) == (502, "text/plain; charset=utf-8")


def test_the_server_listens_on_loopback_and_bounds_a_form() -> None:
    gate = Gate()
    with PageServer(0, gate.forward) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"
            url = urlsplit(server.proxy.start_url)
            found, cookie = dict[str, int](), ""
            for name, method, target, body in (
                ("start", "GET", f"{url.path}?{url.query}", None),
                ("page", "GET", "/page/ask", None),
                ("form", "POST", "/page/ask", b"x=1"),
                ("large form", "POST", "/page/ask", b" " * (MAX_BODY_BYTES + 1)),
            ):
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
                headers = {"Host": url.netloc, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
                connection.putrequest(method, target, skip_host=True)
                for key, value in {**headers, "Content-Length": str(len(body or b""))}.items():
                    connection.putheader(key, value)
                connection.endheaders((body or b"")[:100])
                response = connection.getresponse()
                found[name] = response.status
                cookie = cookie or (response.getheader("Set-Cookie") or "").partition(";")[0]
                response.read()
                connection.close()
        finally:
            server.shutdown()
            thread.join()
    assert found == {"start": 200, "page": 200, "form": 200, "large form": 413}


def run_page(server: RawServer, folder: Path, *arguments: str) -> Result:
    """Run the command."""
    words = ["page", "--kubeconfig", str(write_user(folder)), *name_gate(server, folder / "tls"), *arguments]
    return CliRunner().invoke(root, words, catch_exceptions=False)


def test_the_command_prints_the_address_and_ends_by_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    opened: list[str] = []
    monkeypatch.setattr(PageServer, "serve_forever", interrupt)
    monkeypatch.setattr("webbrowser.open", opened.append)
    with raw_server([full_response(b"<p>")], context=issue_certificates(tmp_path / "tls")) as server:
        result = run_page(server, tmp_path, "--open")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("http://")
    assert opened == [result.stdout.strip()]
    assert "t0ken" not in result.output
    (request,) = server.requests
    assert request.startswith(b"GET /page/ask HTTP/1.1\r\n")
    assert b"Authorization: Bearer t0ken" in request


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (HTTPStatus.NOT_FOUND, "runs without --page on"),
        (HTTPStatus.UNAUTHORIZED, "does not accept the credentials of the kubeconfig"),
    ],
)
def test_a_gate_without_pages_or_for_another_user_is_an_error(tmp_path: Path, status: HTTPStatus, message: str) -> None:
    with raw_server(send_status(status, "no"), context=issue_certificates(tmp_path / "tls")) as server:
        result = run_page(server, tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_port_in_use_is_a_usage_error(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as used,
        raw_server([full_response(b"<p>")], context=issue_certificates(tmp_path / "tls")) as server,
    ):
        result = run_page(server, tmp_path, "--port", str(used.getsockname()[1]))
    assert result.exit_code == 2
    assert "Address already in use" in result.stderr
