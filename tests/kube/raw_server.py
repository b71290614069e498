"""A real HTTP server on loopback that sends exactly the bytes it is told to, as it is told to."""

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

Part = bytes | Callable[[socket.socket], object]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def whole(content: bytes, status: str = "200 OK", more: str = "") -> bytes:
    """An answer with its length, after which the connection ends."""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


def reset(connection: socket.socket) -> None:
    """Break the connection so that the other side sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@dataclass
class RawServer:
    """Plays one list of parts for each request, in order; after the last part the connection ends."""

    plays: list[Sequence[Part]]
    stop: Event = field(default_factory=Event)
    requests: list[bytes] = field(default_factory=list)
    port: int = 0

    def stall(self, _: socket.socket) -> None:
        """Say nothing more until the test is over."""
        self.stop.wait(30)

    def serve(self, listener: socket.socket) -> None:
        """Answer until there is nothing left to play."""
        while self.plays:
            connection, _ = listener.accept()
            Thread(target=self._play, args=(connection, self.plays.pop(0)), daemon=True).start()

    def _play(self, connection: socket.socket, parts: Sequence[Part]) -> None:
        with connection, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            self.requests.append(request)
            for part in parts:
                if isinstance(part, bytes):
                    connection.sendall(part)
                else:
                    part(connection)


@contextmanager
def raw_server(*plays: Sequence[Part]) -> Iterator[RawServer]:
    """The server, for as long as the block runs."""
    server = RawServer(list(plays))
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


def _serve(server: RawServer, listener: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        server.serve(listener)
