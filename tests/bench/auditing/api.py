"""The process that plays the API server: `python -m tests.bench.auditing.api FOLDER`, with its certificate there.

Twenty thousand Deployments lie in it. A list of `asked` is the number of pages that were given.
"""

import json
import ssl
import sys
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.bench.cluster import made_up

DEPLOYMENTS = 20_000
_NAMESPACES = 200
_PAGES = count()


class Api(BaseHTTPRequestHandler):
    """Lists in pages; watches in which nothing happens."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer one request."""
        url = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "watch" in asked:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.connection.recv(1)  # until the other side goes away
            return
        kind = url.path.rpartition("/")[2]
        body = b"%d" % next(_PAGES) if kind == "asked" else _page(kind, asked)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's own names
        """Say nothing."""


def _page(kind: str, asked: dict[str, str]) -> bytes:
    next(_PAGES)
    items = _items(kind)
    first, limit = int(asked.get("continue", "0")), int(asked.get("limit", "1000000000"))
    meta = {"resourceVersion": "100"}
    if first + limit < len(items):
        meta["continue"] = str(first + limit)
    return b'{"metadata":%s,"items":[%s]}' % (json.dumps(meta).encode(), b",".join(items[first : first + limit]))


@cache
def _items(kind: str) -> list[bytes]:
    if kind == "namespaces":
        return [json.dumps(made_up.namespace(number)).encode() for number in range(_NAMESPACES)]
    return [_deployment(number) for number in range(DEPLOYMENTS)] if kind == "deployments" else []


def _deployment(number: int) -> bytes:
    """One as people write it, about 5 KB, as a pod of the other bench; every hundredth asks for half a device."""
    pod: dict[str, Any] = json.loads(made_up.pod(number, 1))
    if number % 100 == 0:
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "500m"}}
    namespace = made_up.namespace(number % _NAMESPACES)["metadata"]["name"]
    labels = {"app": f"app-{number}"}
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    metadata = {"name": f"app-{number}", "namespace": namespace, "uid": f"{number}", "generation": 1}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def main(folder: Path) -> None:
    """Serve until ended; says its port."""
    _items("deployments")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    # The handshake is left to each connection's own thread: a client that is stopped in it holds up no other.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f'{{"port": {server.server_port}}}', file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
