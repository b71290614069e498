"""Nodes on which it is in vain to ask anybody to leave, found for all of them at once.

What `dry_run` would find node by node where only room decides: there is nobody of a lower priority, or the pod lacks
something though all of those left (SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36).
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import Mask, NodeIndices
from webhook.accounting.fit.resources import mask_device_backed

NO_VICTIMS = "No preemption victims found for incoming pod"
_PODS = "pods"


def exclude_hopeless_nodes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> tuple[Mask, Counter[str]]:
    """Which of these nodes surely do not help, and how many of them say what.

    A node that may help passes all that is asked before room, where ports alone depend on other pods; and pods that it
    is promised to may take more of it. Such nodes are told from others by who is there only.
    """
    without_victims = np.asarray(
        cluster.priority_usage.sum_lower_priorities(pod.priority, _PODS, cluster.nodes.pods.array)[nodes] == 0,
        dtype=np.bool_,
    )
    reason_counts = Counter({NO_VICTIMS: int(without_victims.sum())})
    is_checked = (
        np.zeros(len(nodes), dtype=np.bool_) if pod.ports else ~without_victims & ~_mask_nominated(cluster, nodes)
    )
    short = np.zeros(len(nodes), dtype=np.bool_)
    for reason, insufficient in _find_insufficient_resources(pod, cluster, nodes) if is_checked.any() else ():
        reason_counts[reason] += int((insufficient & is_checked).sum())
        short |= insufficient
    return without_victims | (short & is_checked), +reason_counts


def _mask_nominated(cluster: Cluster, nodes: NodeIndices) -> Mask:
    return np.isin(nodes, list(cluster.get_nominated_pods()))


def _find_insufficient_resources(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, Mask]]:
    """What nodes lack though all of a lower priority leave, and which do."""
    yield "Too many pods", _mask_short(pod, cluster, nodes, _PODS, 1)
    for name, requested in pod.requests.items():
        yield (
            f"Insufficient {name}",
            _mask_short(pod, cluster, nodes, name, requested) & ~mask_device_backed(cluster, nodes, name),
        )


def _mask_short(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, name: str, requested: int) -> Mask:
    columns = cluster.nodes
    allocatable, used = (
        columns.find_allocatable_column(name),
        columns.pods if name == _PODS else columns.find_used_column(name),
    )
    free = np.zeros(len(nodes), dtype=np.int64) if allocatable is None else allocatable.array[nodes]
    if used is not None:
        free = free - (used.array - cluster.priority_usage.sum_lower_priorities(pod.priority, name, used.array))[nodes]
    return np.asarray(free < requested, dtype=np.bool_)
