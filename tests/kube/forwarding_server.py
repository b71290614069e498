"""An API server that answers with given objects, and forwards ports to local ones over WebSockets as kubelets do."""

import io
import json
import socket
import ssl
import struct
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROTOCOL = "v4.channel.k8s.io"


@dataclass
class ForwardingServer:
    """The objects by path with their status, and the local port for each port of a pod.

    `requests` are the paths and the headers `Authorization` so far. `error` is sent on the channel of errors instead
    of a connection. `pings` are sent before each message, and `fragments` is the number of frames of each message.
    """

    objects: dict[str, tuple[int, Any]] = field(default_factory=dict)
    local_ports: dict[int, int] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    error: str = ""
    pings: int = 0
    fragments: int = 1
    protocol: str = PROTOCOL
    key_suffix: bytes = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: ForwardingServer

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer with an object, or forward a port."""
        url = urlsplit(self.path)
        self.server_of.requests.append((url.path, self.headers.get("Authorization")))
        status, content = self.server_of.objects.get(url.path, (404, {"kind": "Status", "message": "not found"}))
        if "/portforward" in url.path.lower() and status == 404:
            query = parse_qs(url.query)  # the API server passes `ports` on as `port`
            self._forward(int((query.get("ports") or query["port"])[0]))
            return
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def _forward(self, port: int) -> None:
        self.close_connection = True
        assert self.headers["Upgrade"].lower() == "websocket"
        assert self.headers["Connection"].lower() == "upgrade"
        assert self.headers["Sec-WebSocket-Version"] == "13"
        assert self.headers["Sec-WebSocket-Protocol"] == PROTOCOL
        self.send_response(101)
        key = self.headers["Sec-WebSocket-Key"].encode() + self.server_of.key_suffix
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", b64encode(sha1(key).digest()).decode())  # noqa: S324  # RFC 6455
        self.send_header("Sec-WebSocket-Protocol", self.server_of.protocol)
        self.end_headers()
        frames = _Frames(self.rfile, self.connection, self.server_of)
        for channel in (0, 1):
            frames.send(bytes((channel,)) + struct.pack("<H", port))
        if self.server_of.error:
            frames.send(b"\x01" + self.server_of.error.encode())
            return
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.server_of.local_ports.get(port, 1))) as target,
        ):
            Thread(target=frames.copy_from, args=(target,), daemon=True).start()
            while (message := frames.receive()) is not None:
                assert message[:1] == b"\x00"
                target.sendall(message[1:])
            target.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


class _Frames:
    """The frames of a server (RFC 6455, section 5.2)."""

    def __init__(self, reader: io.BufferedIOBase, connection: socket.socket, server: ForwardingServer) -> None:
        self._reader, self._connection, self._server = reader, connection, server
        self._lock = Lock()

    def send(self, message: bytes) -> None:
        """Send a message in the number of frames of the server, each ping before it."""
        with self._lock:
            for number in range(self._server.pings):
                self._send_frame(0x9, b"%d" % number, is_last=True)
            size = -(-len(message) // self._server.fragments)
            parts = [message[start : start + size] for start in range(0, len(message), size)]
            for number, part in enumerate(parts):
                self._send_frame(0x0 if number else 0x2, part, is_last=number == len(parts) - 1)

    def _send_frame(self, opcode: int, content: bytes, *, is_last: bool) -> None:
        first, length = opcode | (0x80 if is_last else 0), len(content)
        if length < 126:
            header = struct.pack(">BB", first, length)
        elif length < 1 << 16:
            header = struct.pack(">BBH", first, 126, length)
        else:
            header = struct.pack(">BBQ", first, 127, length)
        self._connection.sendall(header + content)

    def receive(self) -> bytes | None:
        """Return the next message of the client, None at the end."""
        while True:
            head = self._reader.read(2)
            if len(head) < 2:
                return None
            assert head[1] & 0x80, "a client masks its frames"
            length = head[1] & 0x7F
            if length >= 126:
                length = int.from_bytes(self._reader.read(2 if length == 126 else 8))
            mask = self._reader.read(4)
            content = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self._reader.read(length)))
            if head[0] & 0x0F == 0x8:
                return None
            if head[0] & 0x0F == 0x2:
                return content

    def copy_from(self, target: socket.socket) -> None:
        """Send what a local port answers, then the end."""
        with suppress(OSError):
            while content := target.recv(70_000):
                self.send(b"\x00" + content)
            with self._lock:
                self._send_frame(0x8, b"", is_last=True)


@contextmanager
def run_forwarding_server(context: ssl.SSLContext | None = None) -> Iterator[ForwardingServer]:
    """Yield a running server, with TLS if there is a context for it."""
    server = ForwardingServer()
    handler = type("Handler", (_Handler,), {"server_of": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        if context is not None:
            http.socket = context.wrap_socket(http.socket, server_side=True)
        server.url = f"http{'s' * (context is not None)}://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
