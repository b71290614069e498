"""The base of benchmarks' API servers: HTTP over TLS on a free port, lists, and watches that stay open."""

import ssl
import sys
from abc import abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_ALL = "1000000000"


class ApiHandler(BaseHTTPRequestHandler):
    """A handler that answers lists by `create_page` and watches by `send_changes`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer one request."""
        url = urlsplit(self.path)
        parameters = {key: values[0] for key, values in parse_qs(url.query).items()}
        kind = url.path.rpartition("/")[2]
        if "watch" in parameters:
            self._watch(kind, int(parameters["resourceVersion"]))
            return
        body = self.create_page(kind, int(parameters.get("continue", "0")), int(parameters.get("limit", _ALL)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's own names
        """Write no log."""

    @abstractmethod
    def create_page(self, kind: str, first: int, limit: int) -> bytes:
        """Return a page of a list as JSON: `limit` items from `first` on; `kind` is the plural of a resource."""

    def send_changes(self, kind: str, revision: int) -> None:
        """Send the changes after a revision, by `send`."""

    def send(self, content: bytes) -> None:
        """Send a chunk of a watch."""
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def _watch(self, kind: str, revision: int) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_changes(kind, revision)
        self.connection.recv(1)  # until the client closes the connection


def serve(folder: Path, api: type[ApiHandler]) -> None:
    """Serve until the process ends, with the certificate in the folder; print the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), api)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    # The handshake is left to each connection's own thread: a client that is stopped in it blocks no other.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f'{{"port": {server.server_port}}}', file=sys.stderr, flush=True)
    server.serve_forever()
