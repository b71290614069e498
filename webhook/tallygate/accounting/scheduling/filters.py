"""The pre-filter and filter plugins in the scheduler's order, run for one pod on all nodes.

Source: findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods in framework/runtime/framework.go, default_plugins.go, v1.36; for nominated pods
addGENominatedPods in framework/runtime/framework.go, v1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster, fork
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.scheduling.diagnosis import Diagnosis, FilterStatus, PreFilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import (
    dynamic_resources,
    inter_pod_constraints,
    node_eligibility,
    node_resources_fit,
    node_volume_limits,
    pod_claims,
    volume_binding,
    volume_restrictions,
    volume_zone,
)

Filter = Callable[[IncomingPod, Cluster, NodeIndices], Iterable[FilterStatus]]
"""A function that evaluates a pod on nodes. Nodes that it does not reject pass. It may omit empty statuses."""

PreFilter = Callable[[IncomingPod, Cluster], str | None]
"""A function that returns the reason why a pod fits no node at all, or None."""

PRE_FILTERS: Sequence[PreFilter] = (
    node_eligibility.pre_filter_node_affinity,
    volume_restrictions.pre_filter_volume_restrictions,
    pod_claims.pre_filter_volume_binding,
    volume_zone.pre_filter_volume_zone,
    inter_pod_constraints.pre_filter_inter_pod_affinity,
)
"""The pre-filters in the order of their plugins. The first reason ends the attempt."""

FILTERS: Mapping[str, Filter] = {
    "NodeUnschedulable": node_eligibility.filter_node_unschedulable,
    "NodeName": node_eligibility.filter_node_name,
    "TaintToleration": node_eligibility.filter_taint_toleration,
    "NodeAffinity": node_eligibility.filter_node_affinity,
    "NodePorts": node_resources_fit.filter_node_ports,
    "NodeResourcesFit": node_resources_fit.filter_node_resources,
    "VolumeRestrictions": volume_restrictions.filter_volume_restrictions,
    "NodeVolumeLimits": node_volume_limits.filter_node_volume_limits,
    "VolumeBinding": volume_binding.filter_volume_binding,
    "VolumeZone": volume_zone.filter_volume_zone,
    "PodTopologySpread": inter_pod_constraints.filter_topology_spread,
    "InterPodAffinity": inter_pod_constraints.filter_inter_pod_affinity,
    "DynamicResources": dynamic_resources.filter_dynamic_resources,
    "NodeDeclaredFeatures": node_eligibility.filter_node_declared_features,
}
"""The filters in their order, by plugin. A node has the reasons of the first plugin that rejects it."""

INTER_POD_PLUGINS = ("PodTopologySpread", "InterPodAffinity")
"""The plugins that depend on other pods: a placement on one node changes their results for others."""

PLUGINS_AFTER_INTER_POD = ("DynamicResources", "NodeDeclaredFeatures")
"""The other plugins that do not run on a node which an inter-pod plugin rejects."""

_NODE_NAMES_PLUGIN = (
    "NodeAffinity"  # the only plugin of the default profile whose pre-filter limits the nodes to evaluate
)


def run_filters(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices | None = None) -> Diagnosis:
    """Run the pre-filter and filter plugins for a pod on the given nodes, by default on all."""
    candidates = cluster.nodes.get_indices() if nodes is None else nodes
    for pre_filter in PRE_FILTERS:
        reason = pre_filter(pod, cluster)
        if reason is not None:
            return Diagnosis(candidates, (), PreFilterStatus(reason))
    if pod.inter_pod.pre_filter_error:
        return Diagnosis(candidates, (), PreFilterStatus(pod.inter_pod.pre_filter_error, is_error=True))
    device_status = dynamic_resources.pre_filter_dynamic_resources(pod, cluster)
    if device_status is not None:
        return Diagnosis(candidates, (), device_status)
    node_names = node_eligibility.list_named_nodes(pod)
    return (
        run_filters_with_nominated_pods(pod, cluster, candidates)
        if node_names is None
        else _run_on_named_nodes(pod, cluster, candidates, node_names)
    )


def run_filters_with_nominated_pods(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Diagnosis:
    """Run the filters for a pod that passed the pre-filters.

    A node with nominated pods of the same or a higher priority must accept the pod both with them and without them.
    """
    without_nominated = tuple(_run_plugins(pod, cluster, nodes))
    nominated_pods = find_nominated_pods(pod, cluster, nodes)
    if not nominated_pods:
        return Diagnosis(nodes, without_nominated)
    with_nominated = [
        _run_beside_nominated_pods(pod, cluster, nodes, index, rivals) for index, rivals in nominated_pods.items()
    ]
    rejected = Diagnosis(nodes, tuple(chain.from_iterable(with_nominated))).rejected
    return Diagnosis(
        nodes,
        (*chain.from_iterable(with_nominated), *(_exclude_nodes(plugin, rejected) for plugin in without_nominated)),
    )


def _run_plugins(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Yield the status of each filter over the nodes that passed all filters before it."""
    feasible = np.ones(len(nodes), dtype=np.bool_)
    for plugin, filter_nodes in FILTERS.items():
        positions = np.flatnonzero(feasible)
        if not len(positions):
            return
        for status in filter_nodes(pod, cluster, nodes[positions]):
            if status.rejected.any():
                yield replace(_expand_status(status, positions, len(nodes)), plugin=plugin)
                feasible[positions[status.rejected]] = False


def _expand_status(status: FilterStatus, positions: NodeIndices, size: int) -> FilterStatus:
    """Return a status of the nodes at `positions` as a status of all `size` nodes."""
    rejected, unresolvable = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    rejected[positions], unresolvable[positions] = status.rejected, status.unresolvable
    return replace(status, rejected=rejected, unresolvable=unresolvable)


def find_nominated_pods(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> dict[int, list[PodInfo]]:
    """Return the nominated pods of the same or a higher priority, by the position of their node in `nodes`."""
    pods_by_position: dict[int, list[PodInfo]] = {}
    for node_index, nominated_pods in cluster.get_nominated_pods().items():
        rivals = [
            other_pod
            for other_pod in nominated_pods.values()
            if other_pod.group.priority >= pod.priority and other_pod.uid != pod.uid
        ]
        for position in (nodes == node_index).nonzero()[0].tolist() if rivals else ():
            pods_by_position[position] = rivals
    return pods_by_position


def _run_beside_nominated_pods(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, position: int, nominated_pods: Iterable[PodInfo]
) -> list[FilterStatus]:
    """Run the filters on one of the nodes in a fork that assumes the nominated pods there."""
    positions = np.array([position])
    with fork(cluster) as forked:
        for nominated_pod in nominated_pods:
            forked.assume(nominated_pod)
        return [
            _expand_status(plugin, positions, len(nodes)) for plugin in _run_plugins(pod, cluster, nodes[positions])
        ]


def _exclude_nodes(status: FilterStatus, excluded: Mask) -> FilterStatus:
    """Return the status without the excluded nodes, which have reasons already."""
    return replace(status, rejected=status.rejected & ~excluded, unresolvable=status.unresolvable & ~excluded)


def _run_on_named_nodes(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, node_names: frozenset[str]
) -> Diagnosis:
    """Run the filters only on the nodes that the pod's affinity names, and reject the others.

    The scheduler evaluates the pod's nominated node first, named or not. If a plugin rejects the pod there, the reason
    of the skipped nodes names that plugin, too.
    """
    nominated_index = cluster.nodes.find_index(pod.nominated_node) if pod.nominated_node else None
    named_nodes = [node_index for name in node_names if (node_index := cluster.nodes.find_index(name)) is not None]
    (positions,) = np.isin(nodes, [*named_nodes, *([] if nominated_index is None else [nominated_index])]).nonzero()
    statuses = [
        _expand_status(status, positions, len(nodes))
        for status in run_filters_with_nominated_pods(pod, cluster, nodes[positions]).statuses
    ]
    plugins = {
        _NODE_NAMES_PLUGIN,
        *(status.plugin for status in statuses if status.rejected[nodes == nominated_index].any()),
    }
    is_skipped = np.isin(np.arange(len(nodes)), positions, invert=True)
    skipped_status = mark_unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]", is_skipped)
    return Diagnosis(nodes, (skipped_status, *statuses))


def select_feasible(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, plugins: Iterable[str]) -> NodeIndices:
    """Return the nodes, in their order, that pass some plugins; nominated pods are not considered."""
    for plugin in plugins:
        feasible = np.ones(len(nodes), dtype=np.bool_)
        for status in FILTERS[plugin](pod, cluster, nodes):
            feasible &= ~status.rejected
        nodes = nodes if feasible.all() else nodes[feasible]
    return nodes
