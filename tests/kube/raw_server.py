"""A real HTTP server on loopback that sends the bytes of a script, in the pieces of the script."""

import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

Part = bytes | Callable[[socket.socket], object]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def full_response(content: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a response with its length, after which the connection ends."""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


def reset(connection: socket.socket) -> None:
    """Break the connection so that the other side sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@dataclass
class RawServer:
    """A server that sends one list of parts for each request, in order; after the last part the connection ends.

    With a `context` it speaks TLS.
    """

    responses: list[Sequence[Part]]
    context: ssl.SSLContext | None = None
    stop: Event = field(default_factory=Event)
    requests: list[bytes] = field(default_factory=list)
    port: int = 0

    def stall(self, _: socket.socket) -> None:
        """Send nothing more until the test ends."""
        self.stop.wait(30)

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until every response is sent."""
        while self.responses:
            connection, _ = listener.accept()
            Thread(target=self._respond, args=(connection, self.responses.pop(0)), daemon=True).start()

    def _respond(self, connection: socket.socket, parts: Sequence[Part]) -> None:
        with connection, suppress(OSError):
            if self.context is None:
                self._send(connection, parts)
                return
            with self.context.wrap_socket(connection, server_side=True) as encrypted:
                self._send(encrypted, parts)

    def _send(self, connection: socket.socket, parts: Sequence[Part]) -> None:
        request = b""
        while _is_incomplete(request):  # a close before all is read would reset the connection
            received = connection.recv(65536)
            if not received:
                return
            request += received
        self.requests.append(request)
        for part in parts:
            if isinstance(part, bytes):
                connection.sendall(part)
            else:
                part(connection)


@contextmanager
def raw_server(*responses: Sequence[Part], context: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """Yield a running server, with TLS if there is a context for it."""
    server = RawServer(list(responses), context)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = Thread(target=_serve, args=(server, listener), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _is_incomplete(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return not end or (length is not None and len(body) < int(length[1]))


def _serve(server: RawServer, listener: socket.socket) -> None:
    with suppress(OSError):  # the listener is closed
        server.serve(listener)
