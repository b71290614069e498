"""Nodes on which a pod can never run as they are, whoever leaves them.

The scheduler hears of each node only the first filter that rejects it; whether a pod waits for others or for ever is
another question, so that here every lasting obstacle is looked for.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import node_affinity, taints
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import Filter, FilterStatus, Mask, NodeIndices, mark_unresolvable
from webhook.accounting.fit.resources import mask_device_backed

_PODS = "pods"


def filter_allocatable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes that have less than the pod asks for, or room for no pod at all, when they are empty."""
    for name, requested in {_PODS: 1, **pod.requests}.items():
        column = cluster.nodes.find_allocatable_column(name)
        allocatable = np.zeros(len(nodes), dtype=np.int64) if column is None else column.array[nodes]
        short = np.asarray(allocatable < requested, dtype=np.bool_)
        yield mark_unresolvable(f"Insufficient {name}", short & ~mask_device_backed(cluster, nodes, name))


UNRESOLVABLE_FILTERS: Sequence[Filter] = (
    taints.filter_node_unschedulable,
    node_affinity.filter_node_name,
    taints.filter_taint_toleration,
    node_affinity.filter_node_affinity,
    filter_allocatable,
)
"""Filters that no pod's leaving changes."""


def mask_unresolvable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mask:
    """On which of these nodes the pod can never run."""
    unresolvable = np.zeros(len(nodes), dtype=np.bool_)
    node_names = node_affinity.list_named_nodes(pod)
    if node_names is not None:
        unresolvable |= ~np.isin(
            nodes, [node_index for name in node_names if (node_index := cluster.nodes.find_index(name)) is not None]
        )
    for filter_nodes in UNRESOLVABLE_FILTERS:
        for status in filter_nodes(pod, cluster, nodes):
            unresolvable |= status.rejected
    return unresolvable
