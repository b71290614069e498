"""Objects of the stress tests: pods, and requests to create, change and delete them; caps as policy files."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from e2e.stress.clients import Request

GPU = "nvidia.com/gpu"

_NOTHING: Mapping[str, str] = {}


def pod(name: str, asks: Mapping[str, str], labels: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
    """Return a pod of one container with these requests; its scheduler does not exist, so that it stays as created."""
    resources = {"requests": dict(asks), "limits": dict(asks)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "schedulerName": "no-scheduler",
            "containers": [{"name": "main", "image": "example.com/none:1", "resources": resources}],
        },
    }


def create(namespace: str, made: Mapping[str, Any]) -> Request:
    """Create this pod."""
    name = made["metadata"]["name"]
    return Request(name, "POST", _pods(namespace), json.dumps(made).encode())


def creates(namespace: str, names: Iterable[str], labels: Mapping[str, str] = _NOTHING) -> list[Request]:
    """Create pods of these names, with one GPU each."""
    return [create(namespace, pod(name, {GPU: "1"}, labels)) for name in names]


def delete(namespace: str, name: str) -> Request:
    """Delete a pod at once."""
    return Request(name, "DELETE", f"{_pods(namespace)}/{name}?gracePeriodSeconds=0")


def patch(namespace: str, name: str, change: Mapping[str, Any], subresource: str = "") -> Request:
    """Change a pod, or a subresource of it, by a strategic merge patch."""
    path = "/".join(part for part in (_pods(namespace), name, subresource) if part)
    return Request(name, "PATCH", path, json.dumps(change).encode(), "application/strategic-merge-patch+json")


def cap(name: str, hard: Mapping[str, str], include: Iterable[str], **more: Any) -> dict[str, Any]:
    """Return a cap of these namespaces."""
    return {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "NamespaceCap",
        "metadata": {"name": name},
        "spec": {"namespaces": {"include": list(include)}, "hard": dict(hard), **more},
    }


def quota(hard: int) -> dict[str, Any]:
    """Return a quota of GPUs for any namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {f"requests.{GPU}": str(hard)}},
    }


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
