"""A process that stands for the API server of a large cluster: `python -m tests.bench.asked_api FOLDER_OF_CERTIFICATE`.

It lists the namespaces, nodes and pods of `tests.bench.asks`, changes 50 pods a second, and allows everyone everything.
The user of a token is its text.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.api_handler import ApiHandler, serve
from tests.bench.asks import NAMESPACES, NODES, PODS, create_namespace, create_node, create_pod

_REVISION: Final = 10
_CHANGED: Final = 50  # pods at a time, once a second
_ITEMS: Final[dict[str, tuple[int, Callable[[int], dict[str, Any]]]]] = {
    "namespaces": (NAMESPACES, create_namespace),
    "nodes": (NODES, create_node),
    "pods": (PODS, create_pod),
}


class AskedApi(ApiHandler):
    """Lists, watches, and reviews of tokens and rights."""

    def create_page(self, kind: str, first: int, limit: int) -> bytes:
        """Return a page; of other kinds there are no objects."""
        total, create = _ITEMS.get(kind, (0, create_pod))
        end = min(first + limit, total)
        meta = {"resourceVersion": str(_REVISION)} | ({"continue": str(end)} if end < total else {})
        items = [create(number) for number in range(first, end)]
        return json.dumps({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}).encode()

    def send_changes(self, kind: str, revision: int) -> None:
        """Send changes of pods until the client has left."""
        while kind == "pods":
            time.sleep(1)
            for _ in range(_CHANGED):
                revision += 1
                pod = create_pod(revision * 7 % PODS)
                pod["metadata"]["resourceVersion"] = str(revision)
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m" if revision % 2 else "500m"
                self.send(json.dumps({"type": "MODIFIED", "object": pod}).encode() + b"\n")

    def do_POST(self) -> None:  # noqa: N802  # the name that http.server calls
        """Answer a TokenReview or a SubjectAccessReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = review["spec"].get("token")
        user = {"authenticated": True, "user": {"username": token}, "audiences": review["spec"].get("audiences")}
        body = json.dumps({**review, "status": {"allowed": True} if token is None else user}).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), AskedApi)
