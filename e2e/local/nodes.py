"""Nodes without machines: KWOK plays their kubelet, the scheduler counts on them as on any other."""

import json
from collections.abc import Mapping
from typing import Any

from e2e.local.cluster import LocalCluster
from e2e.said import said

_EVERY_NODE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_READY_WITHIN = "240s"


def node(name: str, resources: Mapping[str, str]) -> dict[str, Any]:
    """The manifest of a node that has these countable resources beside the usual ones."""
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
        ClusterError: one is refused or does not become ready; the text is kubectl's.
    """
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    said(cluster, "create", "--filename=-", stdin=manifest)
    names = [f"node/{each['metadata']['name']}" for each in nodes]
    said(cluster, "wait", "--for=condition=Ready", f"--timeout={_READY_WITHIN}", *names)
