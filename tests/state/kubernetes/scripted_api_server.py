"""A real HTTP server on loopback in the place of the API server, which answers each request by a script."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

import urllib3

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ClientConfig

Responder = Callable[["Handler"], None]


class ReceivedRequest(NamedTuple):
    """A request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedApiServer:
    """The server as the tests see it: its script, and the requests that it received."""

    responders: list[Responder]
    requests: list[ReceivedRequest] = field(default_factory=list)
    over: Event = field(default_factory=Event)
    connections: set[tuple[str, int]] = field(default_factory=set)
    server: str = ""
    pool: urllib3.PoolManager = field(default_factory=urllib3.PoolManager)
    anonymous: bool = False

    @property
    def client_config(self) -> ClientConfig:
        """The configuration of a client of this server."""
        return ClientConfig(self.server, self.pool, self._authorize)

    def _authorize(self) -> str:
        if self.anonymous:
            raise ApiError(ApiErrorReason.UNAUTHORIZED, "the token cannot be renewed", may_be_applied=False)
        return "Bearer t"


class Handler(BaseHTTPRequestHandler):
    """The handler that runs the next responder of the script for each request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    scripted: ScriptedApiServer

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.scripted.requests.append(ReceivedRequest(self.command, self.path, dict(self.headers), body))
        self.scripted.connections.add(self.client_address)
        self.scripted.responders.pop(0)(self)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _respond  # noqa: N815  # the names that http.server looks for

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def respond_json(status: int, **content: Any) -> Responder:
    """Return a responder that sends JSON."""
    return respond(status, json.dumps(content).encode())


def respond(status: int, body: bytes) -> Responder:
    """Return a responder that sends the given bytes."""

    def send(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", f"{len(body)}")
        handler.end_headers()
        handler.wfile.write(body)

    return send


def respond_and_close(responder: Responder, closed: Event) -> Responder:
    """Return a responder that closes the connection unannounced after the response, and sets an event then."""

    def send_and_close(handler: Handler) -> None:
        responder(handler)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        closed.set()

    return send_and_close


def send_half(handler: Handler) -> None:
    """Send a part of a response and close the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


def hang_up(handler: Handler) -> None:
    """Read the request and reset the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True


def stall(handler: Handler) -> None:
    """Read the request and send no response."""
    handler.scripted.over.wait(30)
    handler.close_connection = True


@contextmanager
def server(*responders: Responder) -> Iterator[ScriptedApiServer]:
    """Run the server during the block, and fail the test if a part of the script is left."""
    scripted = ScriptedApiServer(list(responders))
    handler = type("Scripted", (Handler,), {"scripted": scripted})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        scripted.server = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield scripted
            assert scripted.responders == []
        finally:
            scripted.over.set()
            scripted.pool.clear()
            http.shutdown()
            thread.join()
