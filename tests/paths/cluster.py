"""A server on loopback that stands for the API server: it lists and stores objects; its watches report nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from tallygate.webhook.state.kubernetes.cap_ledger import GROUP, KIND, PLURAL, VERSION

Object = dict[str, Any]

_LEDGERS = f"/apis/{GROUP}/{VERSION}/namespaces/tallygate-system/{PLURAL}"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/tallygate-system/leases"


class Cluster:
    """Objects by the path of their collection; CapLedgers are stored with a resourceVersion as the API server does."""

    def __init__(self, **objects: list[Object]) -> None:
        self.collections = {f"/api/v1/{plural}": items for plural, items in objects.items()}
        self.collections[_LEASES] = []
        self.ledgers: dict[str, Object] = {}
        self.server = ""
        self.closed, self.has_active_ledger = Event(), Event()
        self._revision = 100
        self._lock = Lock()

    def store(self, name: str, body: bytes) -> Object:
        """Store one ledger or lease and return it."""
        with self._lock:
            self._revision += 1
            content: Object = json.loads(body)
            content["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": f"{self._revision}"}
            if content["kind"] == KIND:
                self.ledgers[name] = content
                if not content["status"].get("initializing"):
                    self.has_active_ledger.set()
            return content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes, of which the second would wait 40 ms
    cluster: Cluster

    def do_GET(self) -> None:  # the name that http.server calls
        url = urlsplit(self.path)
        if "watch=" in url.query:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.cluster.closed.wait(60)
            self.close_connection = True
            return
        folder, _, name = url.path.rpartition("/")
        if folder == _LEDGERS and name in self.cluster.ledgers:
            self._answer(200, self.cluster.ledgers[name])
        elif url.path in self.cluster.collections:
            metadata = {"resourceVersion": "100"}
            self._answer(200, {"kind": "List", "metadata": metadata, "items": self.cluster.collections[url.path]})
        else:
            self._answer(404, {"kind": "Status", "message": "not found", "code": 404, "details": {"name": name}})

    def do_POST(self) -> None:
        body = self._body()
        self._answer(201, self.cluster.store(json.loads(body)["metadata"]["name"], body))

    def do_PUT(self) -> None:
        self._answer(200, self.cluster.store(urlsplit(self.path).path.rpartition("/")[2], self._body()))

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _answer(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def run_cluster(**objects: list[Object]) -> Iterator[Cluster]:
    """Yield a cluster with the given pods, namespaces and nodes; it ends with the block."""
    cluster = Cluster(**objects)
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
            cluster.closed.set()
            http.shutdown()
            thread.join()


def write_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """Write a kubeconfig for the cluster and return its path."""
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config), "utf-8")
    return path
