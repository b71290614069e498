"""Clusters and pods as short as a test can write them, put through JSON as everything is."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import create_pod_info
from webhook.objects.scheduling import SchedulingNode, SchedulingPod


def node_of(written: Mapping[str, Any]) -> SchedulingNode:
    """A node from its JSON."""
    return msgspec.json.decode(msgspec.json.encode(written), type=SchedulingNode)


def pod_of(written: Mapping[str, Any]) -> SchedulingPod:
    """A pod from its JSON."""
    return msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod)


def cluster_of(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]] = ()) -> Cluster:
    """A cluster of these nodes, and of those of the pods that are on a node or promised one."""
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(node_of(node))
    for pod in pods:
        found = create_pod_info(pod_of(pod), cluster.groups)
        if found is not None:
            cluster.put_pod(found)
    return cluster


def node(name: str, **has: str) -> dict[str, Any]:
    """A node that has so much, and room for ten pods; `_` in a name stands for `/`."""
    amounts = {"pods": "10"} | {each.replace("_", "/"): amount for each, amount in has.items()}
    return {"metadata": {"name": name, "labels": {"host": name}}, "status": {"allocatable": amounts}}


def pod(name: str = "p", *, on: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod, on a node or nowhere yet; further fields of its spec by keyword, `asks` for its only container."""
    asks = {each.replace("_", "/"): amount for each, amount in spec.pop("asks", {}).items()}
    containers = [{"name": "c", "resources": {"requests": asks}, "ports": spec.pop("ports", [])}]
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {"containers": containers, **where, **spec},
    }
