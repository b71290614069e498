"""Small clusters as lists of objects, and the snapshot of one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webhook.admission.cap_index import CapIndex
from webhook.cli.sources.observed_cluster import ObservedCluster, observe_snapshot
from webhook.policy.parse import parse

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


def namespace(name: str, **labels: str) -> Object:
    """A namespace, as it is stored."""
    metadata = {"name": name, "uid": f"ns-{name}", "resourceVersion": "3", "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod(name: str, asks: dict[str, str], where: str = "team-a", **more: Any) -> Object:
    """A pod that asks for something, as it is stored; `meta` and `status` are added to its own."""
    metadata = {"name": name, "namespace": where, "uid": f"uid-{where}-{name}", "resourceVersion": "50"}
    container = {
        "name": "main",
        "image": "registry.example.com/secret:1",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": asks, "limits": asks},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | more.pop("meta", {}),
        "spec": {"nodeName": "n1", "containers": [container], **more.pop("spec", {})},
        "status": {"phase": "Running", **more.pop("status", {})},
    }


def written(folder: Path, items: Sequence[Object], revision: int = 100) -> Path:
    """The snapshot as a file."""
    path = folder / "snapshot.json"
    listed = {"kind": "List", "apiVersion": "v1", "items": list(items), "metadata": {"resourceVersion": f"{revision}"}}
    path.write_text(json.dumps(listed))
    return path


def seen(folder: Path, items: Sequence[Object], revision: int = 100) -> ObservedCluster:
    """The snapshot, read."""
    return observe_snapshot(written(folder, items, revision))


def caps(text: str) -> CapIndex:
    """The caps of a policy file."""
    parsed = parse([("caps.yaml", text.encode())])
    assert parsed.is_usable, parsed.findings
    return CapIndex(parsed.policies)
