"""The plugins NodeResourcesFit and NodePorts: the counterpart of `accounting.node_fit` for columns, and ports.

Source: fitsRequest in plugins/noderesources/fit.go and plugins/nodeports/node_ports.go, v1.36.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.pod_info import HostPort
from tallygate.accounting.node_fit import Shortfall
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unschedulable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod

_PODS = "pods"
NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
"""The reason of a node on which a port is in use."""


def filter_node_resources(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that are short of pods or of a requested resource, with a status for each resource."""
    columns, zeros = cluster.nodes, np.zeros(len(nodes), dtype=np.int64)
    allocatable_pods = columns.find_allocatable_column(_PODS)
    max_pods = zeros if allocatable_pods is None else allocatable_pods.array[nodes]
    yield mark_unschedulable("Too many pods", _mask_exceeding(1, max_pods - columns.pods.array[nodes]))
    for name, requested in pod.requests.items():
        allocatable, used = columns.find_allocatable_column(name), columns.find_used_column(name)
        capacity = zeros if allocatable is None else allocatable.array[nodes]
        free = capacity if used is None else capacity - used.array[nodes]
        short = _mask_exceeding(requested, free)
        short &= ~mask_device_backed(cluster, nodes, name)
        if short.any():
            yield FilterStatus(f"Insufficient {name}", short, short & _mask_exceeding(requested, capacity))


def mask_device_backed(cluster: Cluster, nodes: NodeIndices, resource: str) -> Mask:
    """Return a mask of the nodes where devices back a resource, so that DynamicResources decides instead."""
    if cluster.device_classes.find_class(resource) is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    allocatable = cluster.nodes.find_allocatable_column(resource)
    return (
        np.ones(len(nodes), dtype=np.bool_)
        if allocatable is None
        else np.asarray(allocatable.array[nodes] == 0, dtype=np.bool_)
    )


def is_device_backed(cluster: Cluster, node_index: int, resource: str) -> bool:
    """Return whether devices back a resource on one node."""
    return bool(mask_device_backed(cluster, np.array([node_index]), resource)[0])


def find_shortfalls(pod: IncomingPod, cluster: Cluster, node_index: int) -> tuple[Shortfall, ...]:
    """Return the shortfalls of one node for the pod."""
    columns = cluster.nodes
    allocatable, used = columns.get_allocatable(node_index), columns.get_used(node_index)
    pods, max_pods = columns.pods[node_index], allocatable.get(_PODS, 0)
    pod_shortfalls = [Shortfall(_PODS, 1, pods, max_pods, unresolvable=False)] if pods + 1 > max_pods else []
    resource_shortfalls = [
        Shortfall(
            name,
            requested,
            used.get(name, 0),
            allocatable.get(name, 0),
            unresolvable=requested > allocatable.get(name, 0),
        )
        for name, requested in pod.requests.items()
        if requested > allocatable.get(name, 0) - used.get(name, 0)
        and (allocatable.get(name) or cluster.device_classes.find_class(name) is None)
    ]
    return (*pod_shortfalls, *resource_shortfalls)


def measure_shortfall(pod: IncomingPod, cluster: Cluster, node_index: int) -> float:
    """Return the sum of the shortfalls as parts of the requests; 0 if the pod fits. Use it only to sort nodes."""
    return sum(shortfall.short / shortfall.requested for shortfall in find_shortfalls(pod, cluster, node_index))


def sort_by_shortfall(pod: IncomingPod, cluster: Cluster, nodes: Iterable[int]) -> list[int]:
    """Return the indices of nodes, the smallest shortfall first; nodes with the same one are ordered by name."""
    return sorted(
        nodes, key=lambda node_index: (measure_shortfall(pod, cluster, node_index), cluster.nodes.get_name(node_index))
    )


def filter_node_ports(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes on which a port of the pod is in use, at the same address or at every address."""
    if not pod.ports:
        return
    in_use = np.zeros(cluster.nodes.size, dtype=np.bool_)
    free = _find_ports_freed_by_fork(cluster)
    for port in pod.ports:
        for node_index, addresses in cluster.get_port_users(port).items():
            remaining = (
                addresses.keys()
                if not free
                else {address for address in addresses if (node_index, port.with_address(address)) not in free}
            )
            in_use[node_index] |= any(port.has_conflict(address) for address in remaining)
    yield mark_unschedulable(NO_FREE_PORTS, in_use[nodes])


def _find_ports_freed_by_fork(cluster: Cluster) -> set[tuple[int, HostPort]]:
    """Return the ports that are free on a node because the fork removed a pod with them, even if other pods use them.

    The scheduler keeps a node's ports in a set (HostPortInfo), in which the last added or removed pod decides.
    """
    free: set[tuple[int, HostPort]] = set()
    for pod, sign in cluster.fork_changes.values():
        ports = {(cluster.nodes.acquire_index(pod.node), port) for port in pod.group.ports}
        free = free | ports if sign < 0 else free - ports
    return free


def _mask_exceeding(requested: int, free: "np.typing.NDArray[np.int64]") -> Mask:
    """Return a mask of the nodes with less free than requested; exact for numbers of any size."""
    return np.asarray(free < requested, dtype=np.bool_)
