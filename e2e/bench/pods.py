"""The pod that is created again and again: one that every rule looks at, and that nobody in the cluster takes up."""

import json


def pod(name: str) -> bytes:
    """A pod that asks for a GPU; its scheduler does not exist, so it stays as it was created."""
    resources = {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1"}
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
