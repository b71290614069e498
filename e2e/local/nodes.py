"""Nodes without machines: KWOK simulates their kubelet, the scheduler counts on them as on any other."""

from collections.abc import Mapping
from typing import Any

from e2e.api import api
from e2e.local.cluster import LocalCluster
from e2e.waiting import until

_EVERY_NODE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_NODES = "/api/v1/nodes"
_READY_WITHIN = 240.0  # seconds


def node(name: str, resources: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a node that has these countable resources beside the usual ones."""
    has = {**_EVERY_NODE, **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "status": {"capacity": has, "allocatable": has},
    }


def add_nodes(cluster: LocalCluster, *nodes: Mapping[str, Any]) -> None:
    """Create these nodes and wait until they are ready for pods.

    Raises:
        ClusterError: if one is refused or does not become ready in time.
    """
    for each in nodes:
        api(cluster.kubeconfig).create(_NODES, each)
    names = {each["metadata"]["name"] for each in nodes}
    until(f"the nodes {sorted(names)} are ready", lambda: names <= _ready(cluster), _READY_WITHIN)


def _ready(cluster: LocalCluster) -> set[str]:
    """Return the names of the ready nodes."""
    return {
        each["metadata"]["name"]
        for each in api(cluster.kubeconfig).items(_NODES)
        if any(
            (condition["type"], condition["status"]) == ("Ready", "True")
            for condition in each["status"].get("conditions", ())
        )
    }
