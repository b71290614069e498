"""An API server that answers what a test says: a real one, on a port of its own."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple


class Said(NamedTuple):
    """An answer: status, body, and the Date in its head, if it has one; or a body that never ends."""

    status: int
    body: bytes
    date: str = ""
    is_endless: bool = False


_ENDLESS = 1 << 40
_PAUSE = 0.02  # seconds between two bytes

Answers = Callable[[str, str], Said]
"""By method and path."""


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers, and logs nothing."""

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            said = answers(self.command, self.path)
            self.send_response_only(said.status)
            if said.date:
                self.send_header("Date", said.date)
            self.send_header("Content-Length", str(len(said.body) + said.is_endless * _ENDLESS))
            self.end_headers()
            self.wfile.write(said.body)
            with suppress(OSError):  # who asked has gone
                while said.is_endless:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    Event().wait(_PAUSE)

        do_GET = do_POST = _answer  # noqa: N815  so called by the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(folder: Path, answers: Answers) -> Iterator[Path]:
    """A kubeconfig of a server that answers so, for as long as the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answers))
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield _kubeconfig(folder, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": "not-to-be-told"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    path.write_text(json.dumps(whole))
    return path
