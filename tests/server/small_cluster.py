"""A small cluster behind a real HTTP server: lists, objects that clients store, and watches without events."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]


@dataclass
class SmallCluster:
    """Objects by the path of their list, paths that are answered with an error, and the paths of all lists so far.

    A list of `delayed` waits for its event. `stored` has the objects that clients created or replaced, by path;
    `on_store` is called with each. `review` returns the status of a review of a spec. `patches` are the paths and
    bodies of all patches, which are answered with the body.
    """

    objects: dict[str, list[Object]] = field(default_factory=dict)
    error_statuses: dict[str, int] = field(default_factory=dict)
    delayed: dict[str, Event] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    stored: dict[str, Object] = field(default_factory=dict)
    patches: list[tuple[str, Object]] = field(default_factory=list)
    on_store: Callable[[Object], object] = lambda _: None
    review: Callable[[Object], Object] = lambda _: {}
    server: str = ""
    over: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)

    def store(self, path: str, body: bytes) -> Object:
        """Store one object with a new resourceVersion, as the API server does, and return it."""
        with self._lock:
            item: Object = json.loads(body)
            item["metadata"] |= {
                "uid": f"uid-{item['metadata']['name']}",
                "resourceVersion": f"{100 + len(self.stored) + 1}",
            }
            self.stored[path] = item
            self.on_store(item)
            return item


def _discover(paths: Iterable[str]) -> Object:
    """Return aggregated discovery of the resources with these paths of lists."""
    parts = [path.split("/")[2:] for path in paths if path.startswith("/apis/")]
    items = [
        {
            "metadata": {"name": group},
            "versions": [{"version": version, "resources": [{"resource": names[-1], "scope": "Namespaced"}]}],
        }
        for group, version, *names in parts
        if names
    ]
    return {"kind": "APIGroupDiscoveryList", "items": items}


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
        if url.path in self.cluster.stored:
            self._send(200, self.cluster.stored[url.path])
            return
        self.cluster.paths.append(url.path)
        if url.path in self.cluster.delayed:
            self.cluster.delayed[url.path].wait(60)
        if url.path == "/apis" and url.path not in self.cluster.error_statuses:
            self._send(200, _discover(self.cluster.objects))
            return
        status = self.cluster.error_statuses.get(url.path, 404 if url.path.startswith("/apis/") else 200)
        items = self.cluster.objects.get(url.path)
        if items is not None and url.path not in self.cluster.error_statuses:
            status = 200
        content: Object = {
            "kind": "Status",
            "message": "no",
            "code": status,
            "details": {"name": url.path.rpartition("/")[2]},
        }
        if status == 200:
            content = {"kind": "List", "metadata": {"resourceVersion": "100"}, "items": items or []}
        self._send(status, content)

    def do_POST(self) -> None:
        """Store a new object, or answer a review, which has no name."""
        body = self._read_body()
        if "metadata" not in json.loads(body):
            self._send(201, {"status": self.cluster.review(json.loads(body)["spec"])})
            return
        self._send(201, self.cluster.store(f"{urlsplit(self.path).path}/{json.loads(body)['metadata']['name']}", body))

    def do_PUT(self) -> None:
        """Replace an object."""
        self._send(200, self.cluster.store(urlsplit(self.path).path, self._read_body()))

    def do_PATCH(self) -> None:
        """Record a patch."""
        path, body = urlsplit(self.path).path, json.loads(self._read_body())
        self.cluster.patches.append((path, body))
        status = self.cluster.error_statuses.get(path, 200)
        self._send(status, body if status == 200 else {"kind": "Status", "message": "no", "code": status})

    def _read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _send(self, status: int, content: Object) -> None:
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
