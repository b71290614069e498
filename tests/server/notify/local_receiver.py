"""A receiver of messages on loopback that records the requests, and answers as a test wants."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import msgspec


class ReceivedMessage(NamedTuple):
    """A request as it was received, with its body decoded."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class LocalReceiver:
    """The receiver as tests see it: the messages that it took, and the status and headers of its next answers."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    refused: list[ReceivedMessage] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    receiver: LocalReceiver

    def do_POST(self) -> None:
        """Record a request, and answer it."""
        body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        received = ReceivedMessage(self.path, dict(self.headers), body)
        receiver = self.receiver
        (receiver.messages if receiver.status < 300 else receiver.refused).append(received)
        self.send_response(receiver.status)
        for name, value in receiver.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def run_receiver(context: ssl.SSLContext | None = None) -> Iterator[LocalReceiver]:
    """Run a receiver, with TLS if there is a context for it."""
    receiver = LocalReceiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        if context is not None:
            http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
        receiver.url = (
            f"{'http' if context is None else 'https'}://localhost:{http_server.server_port}/services/T0/x?y=1"
        )
        thread = Thread(target=http_server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            http_server.shutdown()
            thread.join(5)
