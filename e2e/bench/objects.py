"""What is put into the cluster: the pod that is created again and again, and what it is counted by."""

import json
from typing import Any

PLENTY = 1_000_000_000
"""Of GPUs: more than is ever created."""

_GPU = "nvidia.com/gpu"


def pod(name: str) -> bytes:
    """A pod that every rule looks at; its scheduler does not exist, so it stays as it was created."""
    resources = {"cpu": "100m", "memory": "64Mi", _GPU: "1"}
    container = {
        "name": "main",
        "image": "example.com/none:1",
        "resources": {"requests": resources, "limits": resources},
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"schedulerName": "nobody", "containers": [container]},
        }
    ).encode()


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(name: str, where: str, hard: int = PLENTY) -> dict[str, Any]:
    """A quota of GPUs for a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": where},
        "spec": {"hard": {f"requests.{_GPU}": str(hard)}},
    }


def cap(name: str, where: str, hard: int) -> dict[str, Any]:
    """A cap of GPUs for a namespace, as a policy."""
    return {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "NamespaceCap",
        "metadata": {"name": name},
        "spec": {"namespaces": {"include": [where]}, "hard": {_GPU: hard}},
    }
