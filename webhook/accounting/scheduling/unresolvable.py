"""Nodes on which a pod can never run as they are, whoever leaves them.

The scheduler hears of each node only the first filter that rejects it; whether a pod waits for others or for ever is
another question, so that here every lasting obstacle is looked for.

Whether no node can ever run a pod as it is: a question about nodes alone, whoever is on them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.scheduling.filter_status import Filter, FilterStatus, mark_unresolvable
from webhook.accounting.scheduling.filters import format_fit_error, run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins import node_affinity, node_eligibility
from webhook.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from webhook.accounting.scheduling.unmodelled import find_unmodelled
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec

_PODS = "pods"


def filter_allocatable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes that have less than the pod asks for, or room for no pod at all, when they are empty."""
    for name, requested in {_PODS: 1, **pod.requests}.items():
        column = cluster.nodes.find_allocatable_column(name)
        allocatable = np.zeros(len(nodes), dtype=np.int64) if column is None else column.array[nodes]
        short = np.asarray(allocatable < requested, dtype=np.bool_)
        yield mark_unresolvable(f"Insufficient {name}", short & ~mask_device_backed(cluster, nodes, name))


UNRESOLVABLE_FILTERS: Sequence[Filter] = (
    node_eligibility.filter_node_unschedulable,
    node_affinity.filter_node_name,
    node_eligibility.filter_taint_toleration,
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


def find_largest_allocatable(pod: IncomingPod, cluster: Cluster) -> Mapping[str, int]:
    """The most that any node has of each resource that no node has enough of."""
    maximums = {name: _get_max_allocatable(cluster, name) for name in pod.requests}
    return {name: largest for name, largest in maximums.items() if largest < pod.requests[name]}


def _get_max_allocatable(cluster: Cluster, resource: str) -> int:
    column = cluster.nodes.find_allocatable_column(resource)
    return 0 if column is None else int(column.array[cluster.nodes.get_indices()].max(initial=0))


@dataclass(frozen=True, slots=True)
class NeverPrediction:
    """Why not: `largest` is the most that any node has of what no node has enough of, `sentence` the scheduler's."""

    largest_allocatable: Mapping[str, int]
    message: str


def predict_never(incoming: IncomingPod, cluster: Cluster) -> NeverPrediction | None:
    """Why no node can ever run a pod; None where one could, where there are no nodes, or where that is not known."""
    nodes = cluster.nodes.get_indices()
    if (
        not len(nodes)
        or not mask_unresolvable(incoming, cluster, nodes).all()
        or any(find_unmodelled(incoming, cluster))
    ):
        return None
    return NeverPrediction(
        find_largest_allocatable(incoming, cluster), format_fit_error(run_filters(incoming, cluster))
    )


def with_default_priority(pod: SchedulingPod) -> SchedulingPod:
    """The pod with a priority, which is no matter to nodes, where it has none yet."""
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, priority=0))
