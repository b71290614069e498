"""The nodes on which a pod can never run in its present form, regardless of the other pods.

The scheduler reports for each node only the first plugin that rejects it. To decide between a wait and never, this
module evaluates every permanent obstacle.
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
    """Reject nodes whose allocatable amounts are too small for the pod even without other pods."""
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
"""The filters whose result does not depend on other pods."""


def mask_unresolvable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mask:
    """Return a mask of the nodes on which the pod can never run."""
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
    """Return the largest allocatable amount of each resource that no node has enough of."""
    maximums = {name: _get_max_allocatable(cluster, name) for name in pod.requests}
    return {name: largest for name, largest in maximums.items() if largest < pod.requests[name]}


def _get_max_allocatable(cluster: Cluster, resource: str) -> int:
    column = cluster.nodes.find_allocatable_column(resource)
    return 0 if column is None else int(column.array[cluster.nodes.get_indices()].max(initial=0))


@dataclass(frozen=True, slots=True)
class NeverPrediction:
    """`largest_allocatable` by resource that no node has enough of; `message` is the scheduler's fit error."""

    largest_allocatable: Mapping[str, int]
    message: str


def predict_never(incoming: IncomingPod, cluster: Cluster) -> NeverPrediction | None:
    """Predict that no node can ever run a pod; None if one could, without nodes, and with unmodelled features."""
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
    """Return the pod with priority 0 if it has none, for callers for which the priority does not matter."""
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, priority=0))
