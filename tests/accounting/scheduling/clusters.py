"""Short constructors of clusters, nodes and pods; every object is encoded to JSON and decoded."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import create_pod_info
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion
from tallygate.objects.scheduling import SchedulingNode, SchedulingPod


def decode_node(written: Mapping[str, Any]) -> SchedulingNode:
    """Decode a node from its JSON."""
    return msgspec.json.decode(msgspec.json.encode(written), type=SchedulingNode)


def decode_pod(written: Mapping[str, Any]) -> SchedulingPod:
    """Decode a pod from its JSON."""
    return msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod)


def create_cluster(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]] = (),
    version: KubernetesVersion = DEFAULT_VERSION,
) -> Cluster:
    """Create a cluster of the nodes, and of the pods that are bound to a node or have a nominated node."""
    cluster = Cluster(version)
    for node in nodes:
        cluster.put_node(decode_node(node))
    for pod in pods:
        found = create_pod_info(decode_pod(pod), cluster.groups)
        if found is not None:
            cluster.put_pod(found)
    return cluster


def node(name: str, **allocatable: str) -> dict[str, Any]:
    """Return a node with the allocatable amounts and room for ten pods; `_` in a resource name stands for `/`."""
    amounts = {"pods": "10"} | {each.replace("_", "/"): amount for each, amount in allocatable.items()}
    return {"metadata": {"name": name, "labels": {"host": name}}, "status": {"allocatable": amounts}}


def pod(name: str = "p", *, on: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod of one container; `on` is its node, further keywords are fields of its spec."""
    requests = {each.replace("_", "/"): amount for each, amount in spec.pop("requests", {}).items()}
    containers = [{"name": "c", "resources": {"requests": requests}, "ports": spec.pop("ports", [])}]
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {"containers": containers, **where, **spec},
    }
