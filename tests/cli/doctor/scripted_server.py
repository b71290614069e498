"""An HTTP server on a local port whose responses a test defines."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple


class Response(NamedTuple):
    """A response: status, body, and the optional Date header; or a body that never ends."""

    status: int
    body: bytes
    date: str = ""
    is_endless: bool = False


_ENDLESS = 1 << 40
_PAUSE = 0.02  # seconds between two bytes

Answer = Callable[[str, str], Response]
"""Return the response to a method and a path."""


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """A handler that sends the response of the test, and logs nothing."""

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            response = answer(self.command, self.path)
            self.send_response_only(response.status)
            if response.date:
                self.send_header("Date", response.date)
            self.send_header("Content-Length", str(len(response.body) + response.is_endless * _ENDLESS))
            self.end_headers()
            self.wfile.write(response.body)
            with suppress(OSError):  # the client has disconnected
                while response.is_endless:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    Event().wait(_PAUSE)

        do_GET = do_POST = _answer  # noqa: N815  the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


@contextmanager
def run_server(folder: Path, answer: Answer) -> Iterator[Path]:
    """Run the server, and yield the path of a kubeconfig for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield _write_kubeconfig(folder, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _write_kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": "secret-token"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    path.write_text(json.dumps(config))
    return path
