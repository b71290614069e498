"""The process that plays the API server: `python -m tests.bench.cluster.api FOLDER`, with its certificate there."""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.bench.cluster import made_up

_TOGETHER = 50  # events to a chunk, as a busy API server sends them


class Api(BaseHTTPRequestHandler):
    """Lists and watches of pods, namespaces and nodes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer one request."""
        url = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        kind = url.path.rpartition("/")[2]
        if "watch" in asked:
            self._watch(kind, int(asked["resourceVersion"]))
            return
        body = made_up.page(kind, int(asked.get("continue", "0")), int(asked.get("limit", "1000000000")))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's own names
        """Say nothing."""

    def _watch(self, kind: str, revision: int) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        lines: list[bytes] = []
        for line in made_up.changes() if (kind, revision) == ("pods", made_up.REVISION) else ():
            lines.append(line)
            if len(lines) == _TOGETHER:
                self._chunk(b"".join(lines))
                lines.clear()
        self.connection.recv(1)  # until the other side goes away

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


def main(folder: Path) -> None:
    """Serve until ended; says its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f'{{"port": {server.server_port}}}', file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
