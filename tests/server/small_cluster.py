"""A small cluster behind a real HTTP server: lists of its objects, and watches without events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]


@dataclass
class SmallCluster:
    """Objects by the path of their list, paths that are answered with an error, and the paths of all lists so far."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    error_statuses: dict[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    server: str = ""
    over: Event = field(default_factory=Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes, of which the second would wait 40 ms
    cluster: SmallCluster

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer a list or a watch."""
        url = urlsplit(self.path)
        if "watch=" in url.query:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.cluster.over.wait(60)
            self.close_connection = True
            return
        self.cluster.paths.append(url.path)
        status = self.cluster.error_statuses.get(url.path, 404 if url.path.startswith("/apis/") else 200)
        items = self.cluster.objects.get(url.path)
        if items is not None and url.path not in self.cluster.error_statuses:
            status = 200
        content: Object = {"kind": "Status", "message": "no", "code": status}
        if status == 200:
            content = {"kind": "List", "metadata": {"resourceVersion": "100"}, "items": items or []}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def run_small_cluster(**objects: list[Object]) -> Iterator[SmallCluster]:
    """Yield a cluster with these pods, namespaces and nodes; it ends with the block."""
    cluster = SmallCluster({f"/api/v1/{plural}": items for plural, items in objects.items()})
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        cluster.server = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield cluster
        finally:
            cluster.over.set()
            http.shutdown()
            thread.join()
