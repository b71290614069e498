"""Objects of small clusters, and their snapshots."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tallygate.admission.cap_index import CapIndex
from tallygate.cli.sources.snapshot_file import read_snapshot
from tallygate.cluster.cluster_state import ClusterState
from tallygate.policy.parse import parse

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


def namespace(name: str, **labels: str) -> Object:
    """Return a namespace as the API server stores it."""
    metadata = {"name": name, "uid": f"ns-{name}", "resourceVersion": "3", "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod(name: str, requests: dict[str, str], pod_namespace: str = "team-a", **more: Any) -> Object:
    """Return a stored pod with these requests; `meta`, `spec` and `status` extend its own."""
    metadata = {"name": name, "namespace": pod_namespace, "uid": f"uid-{pod_namespace}-{name}", "resourceVersion": "50"}
    container = {
        "name": "main",
        "image": "registry.example.com/secret:1",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": requests, "limits": requests},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | more.pop("meta", {}),
        "spec": {"nodeName": "n1", "containers": [container], **more.pop("spec", {})},
        "status": {"phase": "Running", **more.pop("status", {})},
    }


def write_snapshot(folder: Path, items: Sequence[Object], revision: int = 100) -> Path:
    """Write a snapshot, and return its path."""
    path = folder / "snapshot.json"
    listed = {"kind": "List", "apiVersion": "v1", "items": list(items), "metadata": {"resourceVersion": f"{revision}"}}
    path.write_text(json.dumps(listed))
    return path


def load_snapshot(folder: Path, items: Sequence[Object], revision: int = 100) -> ClusterState:
    """Write a snapshot, and read it as the commands do."""
    return read_snapshot(write_snapshot(folder, items, revision))


def parse_caps(text: str) -> CapIndex:
    """Return the caps of a policy file."""
    parsed = parse([("caps.yaml", text.encode())])
    assert parsed.is_usable, parsed.findings
    return CapIndex(parsed.policies, None)
