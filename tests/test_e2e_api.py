"""How end-to-end cases ask an API: what they are told, and what becomes of a connection that is closed under them."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from e2e.api import Api
from e2e.errors import ClusterError


class _Server(BaseHTTPRequestHandler):
    """Answers what the path says; who asks for `/closing` finds the connection closed the first time.

    Who asks for `/later` is to ask again the first time.
    """

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/closing" and self.asked.count(self.asked[-1]) == 1:
            self.close_connection = True
            return
        later = self.path == "/later" and self.asked.count(self.asked[-1]) == 1
        refused = later or self.path == "/busy"
        body = b"Too many requests, please try again later.\n" if refused else json.dumps({"path": self.path}).encode()
        self.send_response(429 if refused else 200)
        if later:
            self.send_header("Retry-After", "0")
        self.send_header("Warning", '299 - "spec: \\"a\\" is not \\\\ b"')
        self.send_header("Warning", '299 - "once more"')
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - as the library calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def api(tmp_path: Path, asked: list[str]) -> Iterator[Api]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Asked", (_Server,), {"asked": asked}))
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    config = {
        "current-context": "c",
        "contexts": [context],
        "clusters": [cluster],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    with Api(tmp_path / "kubeconfig") as made:
        yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_warnings_are_told_as_they_were_before_they_were_quoted(api: Api) -> None:
    assert api.ask("GET", "/fine").warnings == ('spec: "a" is not \\ b', "once more")


def test_who_is_refused_in_plain_text_is_told_that_text(api: Api) -> None:
    answer = api.ask("GET", "/busy")
    assert (answer.is_done, answer.refusal) == (False, "Too many requests, please try again later.\n")
    with pytest.raises(ClusterError, match="answers 429: Too many requests"):
        answer.object()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_is_told_to_ask_again_later_does(api: Api, asked: list[str], method: str) -> None:
    assert api.ask(method, "/later").object() == {"path": "/later"}
    assert asked == [f"{method} /later"] * 2


def test_what_changes_nothing_is_asked_again_where_the_connection_is_closed(api: Api, asked: list[str]) -> None:
    assert api.get("/closing") == {"path": "/closing"}
    assert asked == ["GET /closing"] * 2


def test_a_create_is_never_sent_twice(api: Api, asked: list[str]) -> None:
    with pytest.raises(ClusterError, match=r"POST .*/closing"):
        api.create("/closing", {})
    assert asked == ["POST /closing"]
