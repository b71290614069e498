"""A process that stands for the API server: `python -m tests.bench.audit.deployment_api FOLDER_OF_CERTIFICATE`.

It has twenty thousand Deployments. A list of `pages` is the number of pages that were sent.
"""

import json
import sys
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.bench.api_handler import ApiHandler, serve
from tests.bench.cluster import synthetic

DEPLOYMENTS = 20_000
_NAMESPACES = 200
_PAGES = count()


class Api(ApiHandler):
    """Lists in pages; watches without events."""

    def create_page(self, kind: str, first: int, limit: int) -> bytes:
        """Return a page, or the number of pages."""
        return b"%d" % next(_PAGES) if kind == "pages" else _create_page(kind, first, limit)


def _create_page(kind: str, first: int, limit: int) -> bytes:
    next(_PAGES)
    items = _create_items(kind)
    meta = {"resourceVersion": "100"}
    if first + limit < len(items):
        meta["continue"] = str(first + limit)
    return b'{"metadata":%s,"items":[%s]}' % (json.dumps(meta).encode(), b",".join(items[first : first + limit]))


@cache
def _create_items(kind: str) -> list[bytes]:
    if kind == "namespaces":
        return [json.dumps(synthetic.create_namespace(number)).encode() for number in range(_NAMESPACES)]
    return [_encode_deployment(number) for number in range(DEPLOYMENTS)] if kind == "deployments" else []


def _encode_deployment(number: int) -> bytes:
    """Return a Deployment of about 5 KB with the pod of the other benchmark; every hundredth requests half a device."""
    pod: dict[str, Any] = json.loads(synthetic.encode_pod(number, 1))
    if number % 100 == 0:
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "500m"}}
    namespace = synthetic.create_namespace(number % _NAMESPACES)["metadata"]["name"]
    labels = {"app": f"app-{number}"}
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    metadata = {"name": f"app-{number}", "namespace": namespace, "uid": f"{number}", "generation": 1}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


if __name__ == "__main__":
    _create_items("deployments")
    serve(Path(sys.argv[1]), Api)
