"""The API client of the end-to-end tests: warnings, errors, and closed connections."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from e2e.api import Api
from e2e.errors import ClusterError


class _Server(BaseHTTPRequestHandler):
    """A server that closes the connection of the first request for `/closing`.

    The first request for `/later`, and every one for `/busy`, is rejected with 429.
    """

    protocol_version = "HTTP/1.1"
    requests: list[str]

    def _answer(self) -> None:
        self.requests.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/closing" and self.requests.count(self.requests[-1]) == 1:
            self.close_connection = True
            return
        is_postponed = self.path == "/later" and self.requests.count(self.requests[-1]) == 1
        is_rejected = is_postponed or self.path == "/busy"
        body = (
            b"Too many requests, please try again later.\n" if is_rejected else json.dumps({"path": self.path}).encode()
        )
        self.send_response(429 if is_rejected else 200)
        if is_postponed:
            self.send_header("Retry-After", "0")
        self.send_header("Warning", '299 - "spec: \\"a\\" is not \\\\ b"')
        self.send_header("Warning", '299 - "once more"')
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the names of http.server

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.fixture
def api(tmp_path: Path, requests: list[str]) -> Iterator[Api]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_RecordingServer", (_Server,), {"requests": requests}))
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


def test_warnings_are_returned_without_quotes(api: Api) -> None:
    assert api.ask("GET", "/fine").warnings == ('spec: "a" is not \\ b', "once more")


def test_an_error_in_plain_text_is_returned(api: Api) -> None:
    answer = api.ask("GET", "/busy")
    assert (answer.is_done, answer.rejection) == (False, "Too many requests, please try again later.\n")
    with pytest.raises(ClusterError, match="answers 429: Too many requests"):
        answer.object()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_is_retried_after_retry_after(api: Api, requests: list[str], method: str) -> None:
    assert api.ask(method, "/later").object() == {"path": "/later"}
    assert requests == [f"{method} /later"] * 2


def test_a_read_is_retried_if_the_connection_is_closed(api: Api, requests: list[str]) -> None:
    assert api.get("/closing") == {"path": "/closing"}
    assert requests == ["GET /closing"] * 2


def test_a_create_is_never_sent_twice(api: Api, requests: list[str]) -> None:
    with pytest.raises(ClusterError, match=r"POST .*/closing"):
        api.create("/closing", {})
    assert requests == ["POST /closing"]
