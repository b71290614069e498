"""The process that plays the API server: `python -m tests.bench.auditing.api FOLDER`, with its certificate there.

Twenty thousand Deployments lie in it. A list of `asked` is the number of pages that were given.
"""

import json
import sys
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.bench.cluster import made_up
from tests.bench.played import Played, serve

DEPLOYMENTS = 20_000
_NAMESPACES = 200
_PAGES = count()


class Api(Played):
    """Lists in pages; watches in which nothing happens."""

    def listed(self, kind: str, first: int, limit: int) -> bytes:
        """A page, or how many there were."""
        return b"%d" % next(_PAGES) if kind == "asked" else _page(kind, first, limit)


def _page(kind: str, first: int, limit: int) -> bytes:
    next(_PAGES)
    items = _items(kind)
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


if __name__ == "__main__":
    _items("deployments")
    serve(Path(sys.argv[1]), Api)
