"""A real HTTP server on loopback that stands for the API server, and does to each request what it is told to."""

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

from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.client import ClientConfig

Play = Callable[["Handler"], None]


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Scripted:
    """The server as the tests see it: what it is to do, and what it was asked."""

    plays: list[Play]
    asked: list[Asked] = field(default_factory=list)
    over: Event = field(default_factory=Event)
    connections: set[tuple[str, int]] = field(default_factory=set)
    server: str = ""
    pool: urllib3.PoolManager = field(default_factory=urllib3.PoolManager)
    anonymous: bool = False

    @property
    def client_config(self) -> ClientConfig:
        """The configuration that leads there."""
        return ClientConfig(self.server, self.pool, self._authorize)

    def _authorize(self) -> str:
        if self.anonymous:
            raise ApiError(ApiErrorReason.UNAUTHORIZED, "the token cannot be renewed", may_be_applied=False)
        return "Bearer t"


class Handler(BaseHTTPRequestHandler):
    """Plays the next play for each request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    scripted: Scripted

    def _play(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.scripted.asked.append(Asked(self.command, self.path, dict(self.headers), body))
        self.scripted.connections.add(self.client_address)
        self.scripted.plays.pop(0)(self)

    do_GET = do_PUT = do_POST = do_DELETE = _play  # noqa: N815  # the names that http.server looks for

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def says(status: int, **content: Any) -> Play:
    """Answer with JSON."""
    return sends(status, json.dumps(content).encode())


def sends(status: int, body: bytes) -> Play:
    """Answer with these bytes."""

    def play(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", f"{len(body)}")
        handler.end_headers()
        handler.wfile.write(body)

    return play


def parting(play: Play, gone: Event) -> Play:
    """Answer so, and close the connection without a word of that; say when it is closed."""

    def play_and_part(handler: Handler) -> None:
        play(handler)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        gone.set()

    return play_and_part


def cut(handler: Handler) -> None:
    """Answer half, and go."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


def hang_up(handler: Handler) -> None:
    """Take the request, and go."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True


def stall(handler: Handler) -> None:
    """Take the request, and say nothing."""
    handler.scripted.over.wait(30)
    handler.close_connection = True


@contextmanager
def server(*plays: Play) -> Iterator[Scripted]:
    """The server, for as long as the block runs; all it is to do must have been asked of it by then."""
    scripted = Scripted(list(plays))
    handler = type("Scripted", (Handler,), {"scripted": scripted})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        scripted.server = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield scripted
            assert scripted.plays == []
        finally:
            scripted.over.set()
            scripted.pool.clear()
            http.shutdown()
            thread.join()
