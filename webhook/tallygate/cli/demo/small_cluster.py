"""The cluster of the demonstration: two nodes with GPUs, the pods of two teams, and two users, behind an API server.

The server lists and watches objects that never change, and answers the reviews of tokens and of rights. It stores
nothing and is bound to this machine.
"""

import json
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION

_Object = dict[str, Any]

_HOST: Final = "127.0.0.1"
_REVISION: Final = "1"
_BOOKMARK_SECONDS: Final = 5.0
_TENANT, _ADMIN = "tenant", "admin"
_EMPTY_LISTS: Final = (
    "node.k8s.io/v1/runtimeclasses",
    *(
        f"resource.k8s.io/v1/{plural}"
        for plural in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
    ),
)
TENANT_NAMESPACE: Final = "team-a"
"""The namespace in which the tenant has all rights; elsewhere he has none."""


class SmallCluster:
    """A context with the API server of the demonstration; `tokens` are those of its users by their names."""

    def __init__(self) -> None:
        self.tokens = {name: f"{name}-{secrets.token_urlsafe(9)}" for name in (_TENANT, _ADMIN)}
        self._over = threading.Event()
        lists = {f"/api/v1/{plural}": objects for plural, objects in _list_objects().items()}
        lists |= {f"/apis/{path}": [] for path in _EMPTY_LISTS}
        critical = _create("PriorityClass", "system-node-critical", value=2_000_001_000)
        lists["/apis/scheduling.k8s.io/v1/priorityclasses"] = [critical]
        handler = type("Handler", (_Handler,), {"lists": lists, "tokens": self.tokens, "over": self._over})
        self._server = _Server((_HOST, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"http://{_HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing of a client that ends during a request, as the server of the pages does at the end."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes, of which the second would wait 40 ms
    lists: Mapping[str, Sequence[_Object]]
    tokens: Mapping[str, str]
    over: threading.Event

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer a list, a watch, or the version."""
        url = urlsplit(self.path)
        if url.path == "/version":
            self._send(200, {"gitVersion": f"v{DEFAULT_VERSION}.0"})
        elif url.path == "/apis":
            self._send(200, {"kind": "APIGroupDiscoveryList", "items": []})
        elif url.path not in self.lists:
            self._send(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "it is not served"})
        elif "watch" in parse_qs(url.query):
            self._watch(url.path)
        else:
            self._send(200, {"kind": "List", "metadata": {"resourceVersion": _REVISION}, "items": self.lists[url.path]})

    def do_POST(self) -> None:
        """Answer a review of a token or of a right."""
        spec = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))["spec"]
        self._send(201, {"status": _review(spec, self.tokens)})

    def _watch(self, path: str) -> None:
        """Tell at times that nothing has changed, until the end."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        kind = {"apiVersion": "v1", "kind": self.lists[path][0]["kind"]} if self.lists[path] else {}
        bookmark = {"type": "BOOKMARK", "object": {**kind, "metadata": {"resourceVersion": _REVISION}}}
        line = json.dumps(bookmark).encode() + b"\n"
        try:
            while not self.over.wait(_BOOKMARK_SECONDS):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        except OSError:
            pass  # the client has closed the connection
        self.close_connection = True

    def _send(self, status: int, content: _Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


def _review(spec: _Object, tokens: Mapping[str, str]) -> _Object:
    """Return the status of a TokenReview or a SubjectAccessReview."""
    if "token" in spec:
        for name, token in tokens.items():
            if secrets.compare_digest(spec["token"].encode(), token.encode()):
                return {"authenticated": True, "user": {"username": name}, "audiences": spec.get("audiences", [])}
        return {"authenticated": False}
    access = spec.get("resourceAttributes", {})
    return {"allowed": spec["user"] == _ADMIN or access.get("namespace") == TENANT_NAMESPACE}


def _list_objects() -> dict[str, list[_Object]]:
    """Return the objects by the plural of their kind."""
    return {
        "namespaces": [_create("Namespace", name) for name in ("default", TENANT_NAMESPACE, "team-b")],
        "nodes": [_create_node(f"gpu-{number}", 4) for number in (1, 2)] + [_create_node("cpu-1", 0)],
        "pods": list(_list_pods()),
        "limitranges": [],
        "resourcequotas": [],
    }


def _list_pods() -> Iterator[_Object]:
    yield _create_pod(TENANT_NAMESPACE, "good", "gpu-1", 2)
    yield _create_pod(TENANT_NAMESPACE, "report", None, 0, {"nodeSelector": {"disk": "nvme"}})
    for number, node in enumerate(("gpu-1", "gpu-2", "gpu-2")):
        yield _create_pod("team-b", f"render-{number}", node, 1)
    yield _create_pod("default", "web", "cpu-1", 0)


def _create(kind: str, name: str, namespace: str = "", **content: Any) -> _Object:
    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, "uid": f"{namespace}-{name}", "resourceVersion": _REVISION} | place
    labels = {"kubernetes.io/metadata.name": name} if kind == "Namespace" else {"kubernetes.io/hostname": name}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata | times | {"labels": labels}, **content}


def _create_node(name: str, gpus: int) -> _Object:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"} | ({"nvidia.com/gpu": f"{gpus}"} if gpus else {})
    ready = {"type": "Ready", "status": "True"}
    return _create("Node", name, spec={}, status={"capacity": amounts, "allocatable": amounts, "conditions": [ready]})


def _create_pod(namespace: str, name: str, node: str | None, gpus: int, spec: _Object | None = None) -> _Object:
    """Return a pod that runs on a node, or waits without one."""
    amounts = {"cpu": "2", "memory": "8Gi"} | ({"nvidia.com/gpu": f"{gpus}"} if gpus else {})
    container = {
        "name": "main",
        "image": "registry.example/main",
        "resources": {"requests": amounts, "limits": amounts},
    }
    place = {"nodeName": node} if node else {}
    status = {"phase": "Running" if node else "Pending", "startTime": "2026-01-01T00:00:00Z"}
    return _create("Pod", name, namespace, spec={"containers": [container], **place, **(spec or {})}, status=status)
