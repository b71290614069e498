"""A pod against all nodes: the filters in the scheduler's order, and what each node says.

Source: findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods in framework/runtime/framework.go, default_plugins.go, v1.36.

Pods that nodes are promised to, and to which others yield.

Source: addGENominatedPods in framework/runtime/framework.go, v1.36.

The scheduler's own sentence about a pod that fits nowhere.

Source: FitError.Error in pkg/scheduler/framework/types.go, v1.36.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.cluster.fork import fork
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.scheduling.filter_status import Filter, FilterStatus, mark_unresolvable
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins import (
    inter_pod_affinity,
    node_affinity,
    node_eligibility,
    node_resources_fit,
    node_volume_limits,
    pod_claims,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
    volume_zone,
)


def find_nominated_pods(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> dict[int, list[PodInfo]]:
    """The pods of the same or a higher priority that some of these nodes are promised to, by their index."""
    pods_by_position: dict[int, list[PodInfo]] = {}
    for node_index, nominated_pods in cluster.get_nominated_pods().items():
        rivals = [
            each for each in nominated_pods.values() if each.group.priority >= pod.priority and each.uid != pod.uid
        ]
        for position in (nodes == node_index).nonzero()[0].tolist() if rivals else ():
            pods_by_position[position] = rivals
    return pods_by_position


@dataclass(frozen=True, slots=True)
class PreFilterStatus:
    """A pod that no node is asked for: why, whether nobody's leaving could help, and whether the attempt failed."""

    reason: str
    is_unresolvable: bool
    is_error: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """What every node says: `rejections` over `places`, each node's from the first filter that rejects it only.

    `refused` when nodes were not asked.
    """

    nodes: NodeIndices
    statuses: tuple[FilterStatus, ...]
    pre_filter_status: PreFilterStatus | None = None

    @property
    def feasible(self) -> NodeIndices:
        """The places of the nodes that the pod fits on."""
        return self.nodes[~self.rejected] if self.pre_filter_status is None else self.nodes[:0]

    @property
    def resolvable(self) -> NodeIndices:
        """The places of the nodes that reject the pod, where others' leaving might help."""
        if self.pre_filter_status is not None:
            return self.nodes[:0] if self.pre_filter_status.is_unresolvable else self.nodes
        unresolvable = np.zeros(len(self.nodes), dtype=np.bool_)
        for status in self.statuses:
            unresolvable |= status.unresolvable
        return self.nodes[self.rejected & ~unresolvable]

    def reasons(self, node_index: int) -> tuple[str, ...]:
        """Why one node rejects the pod; empty when it does not."""
        if self.pre_filter_status is not None:
            return (self.pre_filter_status.reason,)
        (position,) = np.flatnonzero(self.nodes == node_index)
        return tuple(each.reason for each in self.statuses if each.rejected[position])

    @property
    def error(self) -> str:
        """What the scheduler stumbles over where there is a node, which ends its attempt; empty if nothing is amiss."""
        if self.pre_filter_status is not None and self.pre_filter_status.is_error and len(self.nodes):
            return self.pre_filter_status.reason
        errors = (each for each in self.statuses if each.is_error and each.rejected.any())
        return next((f'running "{each.plugin}" filter plugin: {each.reason}' for each in errors), "")

    @property
    def rejected(self) -> Mask:
        """Which of the places reject the pod, where they were asked."""
        rejected = np.zeros(len(self.nodes), dtype=np.bool_)
        for status in self.statuses:
            rejected |= status.rejected
        return rejected


PreFilter = Callable[[IncomingPod, Cluster], str | None]
"""Says why a pod is placed on no node whatever, or None."""

PRE_FILTERS: Sequence[PreFilter] = (
    node_affinity.pre_filter_node_affinity,
    volume_restrictions.pre_filter_volume_restrictions,
    pod_claims.pre_filter_volume_binding,
    volume_zone.pre_filter_volume_zone,
    inter_pod_affinity.pre_filter_inter_pod_affinity,
)
"""What is asked before the nodes are, in the order of the plugins. The first that refuses is the only one heard."""

FILTERS: Mapping[str, Filter] = {
    "NodeUnschedulable": node_eligibility.filter_node_unschedulable,
    "NodeName": node_affinity.filter_node_name,
    "TaintToleration": node_eligibility.filter_taint_toleration,
    "NodeAffinity": node_affinity.filter_node_affinity,
    "NodePorts": node_resources_fit.filter_node_ports,
    "NodeResourcesFit": node_resources_fit.filter_node_resources,
    "VolumeRestrictions": volume_restrictions.filter_volume_restrictions,
    "NodeVolumeLimits": node_volume_limits.filter_node_volume_limits,
    "VolumeBinding": volume_binding.filter_volume_binding,
    "VolumeZone": volume_zone.filter_volume_zone,
    "PodTopologySpread": pod_topology_spread.filter_topology_spread,
    "InterPodAffinity": inter_pod_affinity.filter_inter_pod_affinity,
    "NodeDeclaredFeatures": node_eligibility.filter_node_declared_features,
}
"""The filters in their order, by plugin. The first that rejects a node is the only one that is heard of it."""

INTER_POD_PLUGINS = ("PodTopologySpread", "InterPodAffinity")
"""Those that go by whom pods are with: a pod that comes to one node changes what they say of others."""

_NODE_NAMES_PLUGIN = (
    "NodeAffinity"  # the only plugin of the default profile that says beforehand which nodes are worth asking
)


def run_filters(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices | None = None) -> Diagnosis:
    """What the nodes of a cluster, or these of them, say to a pod."""
    candidates = cluster.nodes.get_indices() if nodes is None else nodes
    for pre_filter in PRE_FILTERS:
        reason = pre_filter(pod, cluster)
        if reason is not None:
            return Diagnosis(candidates, (), PreFilterStatus(reason, is_unresolvable=True))
    if pod.inter_pod.pre_filter_error:
        return Diagnosis(
            candidates, (), PreFilterStatus(pod.inter_pod.pre_filter_error, is_unresolvable=True, is_error=True)
        )
    node_names = node_affinity.list_named_nodes(pod)
    return (
        run_filters_with_nominated_pods(pod, cluster, candidates)
        if node_names is None
        else _run_on_named_nodes(pod, cluster, candidates, node_names)
    )


def select_feasible(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, plugins: Iterable[str]) -> NodeIndices:
    """Those of these nodes, in their order, that each of some filters lets the pod on, beside nobody it yields to."""
    for plugin in plugins:
        feasible = np.ones(len(nodes), dtype=np.bool_)
        for status in FILTERS[plugin](pod, cluster, nodes):
            feasible &= ~status.rejected
        nodes = nodes if feasible.all() else nodes[feasible]
    return nodes


def _run_on_named_nodes(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, node_names: frozenset[str]
) -> Diagnosis:
    """What nodes say of which only those are worth asking that the pod names.

    The node that is promised to the pod is asked before all, named or not; the plugin that rejects it there is then
    told among those that left the others out.
    """
    nominated_index = cluster.nodes.find_index(pod.nominated_node) if pod.nominated_node else None
    named_nodes = [node_index for name in node_names if (node_index := cluster.nodes.find_index(name)) is not None]
    (positions,) = np.isin(nodes, [*named_nodes, *([] if nominated_index is None else [nominated_index])]).nonzero()
    statuses = [
        _expand_status(each, positions, len(nodes))
        for each in run_filters_with_nominated_pods(pod, cluster, nodes[positions]).statuses
    ]
    plugins = {_NODE_NAMES_PLUGIN, *(each.plugin for each in statuses if each.rejected[nodes == nominated_index].any())}
    is_skipped = np.isin(np.arange(len(nodes)), positions, invert=True)
    skipped_status = mark_unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]", is_skipped)
    return Diagnosis(nodes, (skipped_status, *statuses))


def run_filters_with_nominated_pods(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Diagnosis:
    """What these nodes say to a pod that is not refused.

    A node that is promised to pods of the same or a higher priority must take the pod both beside them and alone.
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
        nodes, (*chain.from_iterable(with_nominated), *(_exclude_nodes(each, rejected) for each in without_nominated))
    )


def _run_beside_nominated_pods(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, position: int, nominated_pods: Iterable[PodInfo]
) -> list[FilterStatus]:
    """What one of the nodes says while pods are thought there that it is promised to."""
    positions = np.array([position])
    with fork(cluster) as forked:
        for nominated_pod in nominated_pods:
            forked.assume(nominated_pod)
        return [_expand_status(each, positions, len(nodes)) for each in _run_plugins(pod, cluster, nodes[positions])]


def _exclude_nodes(status: FilterStatus, excluded: Mask) -> FilterStatus:
    """The same rejection, but for nodes that have said something already."""
    return replace(status, rejected=status.rejected & ~excluded, unresolvable=status.unresolvable & ~excluded)


def _run_plugins(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """The rejections, each of nodes that no filter before has rejected."""
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
    """The same rejection over all places that were asked about."""
    rejected, unresolvable = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    rejected[positions], unresolvable[positions] = status.rejected, status.unresolvable
    return replace(status, rejected=rejected, unresolvable=unresolvable)


NO_NODES = "no nodes available to schedule pods"


def format_fit_error(diagnosis: Diagnosis, post_filter_message: str = "") -> str:
    """`0/5 nodes are available: …`; `afterword` is what preemption came to."""
    if not len(diagnosis.nodes):
        return NO_NODES
    total = len(diagnosis.nodes)
    message = (
        f"{_format_prefix(total)} {diagnosis.pre_filter_status.reason}."
        if diagnosis.pre_filter_status
        else format_reason_counts(total, _count_reasons(diagnosis))
    )
    return f"{message} {post_filter_message}" if post_filter_message else message


def format_reason_counts(total: int, reason_counts: Counter[str]) -> str:
    """How many of all nodes have which reason. Counts are sorted as text, as there."""
    histogram = ", ".join(sorted(f"{number} {reason}" for reason, number in (+reason_counts).items()))
    return f"{_format_prefix(total)} {histogram}." if histogram else _format_prefix(total)


def _format_prefix(total: int) -> str:
    return f"0/{total} nodes are available:"


def _count_reasons(diagnosis: Diagnosis) -> Counter[str]:
    counts: Counter[str] = Counter()
    for status in diagnosis.statuses:
        counts[status.reason] += int(status.rejected.sum())
    return counts
