"""Predictions for copies of a pod: fits now, not now, never or unknown; with a diagnosis of one node on request.

A DaemonSet gets one pod for every eligible node. Source: nodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in
pkg/controller/daemon, v1.36. The controller makes a pod for each node whose taints and labels allow it; the scheduler
then evaluates that node alone.

`predict_copies` and `schedule_one` are exact, and look for at least a hundred preemption candidates. `predict_quickly`
tries a few nodes, and answers only if these decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec
import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import NodeIndices
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.filters import Diagnosis, run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from webhook.accounting.scheduling.placement import (
    PlacementSession,
    count_max_copies,
    is_independent,
    open_placement_session,
)
from webhook.accounting.scheduling.plugins import (
    inter_pod_affinity,
    node_affinity,
    node_eligibility,
    node_resources_fit,
    pod_topology_spread,
)
from webhook.accounting.scheduling.preemption import exclude_hopeless_nodes
from webhook.accounting.scheduling.schedule import ScheduleResult, schedule_one, select_or_preempt
from webhook.accounting.scheduling.unmodelled import find_unmodelled
from webhook.accounting.scheduling.unresolvable import find_largest_allocatable, mask_unresolvable
from webhook.accounting.scheduling.victims import PreemptionCandidate, select_victims_on_node
from webhook.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement
from webhook.objects.scheduling import Affinity, NodeAffinity, SchedulingPod, SchedulingPodSpec, Toleration

MAX_CONSUMERS = 5
"""The maximal number of pods in `NodeDiagnosis.consumers`."""
_PODS = "pods"


class Feasibility(StrEnum):
    """Whether all copies can run."""

    NOW = "fits now"
    NOT_NOW = "not now"
    NEVER = "never on these nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeConsumer:
    """A pod on a node, and the amounts that it uses of the resources which are short there."""

    pod: PodInfo
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """The diagnosis of one node: `reasons` are the scheduler's, empty if the pod fits.

    `shortfalls` are all resources that are short, `can_ever_run` is whether the pod could run there after other pods
    left, `consumers` are the pods that use most of the resources in short supply, at most five.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    can_ever_run: bool = True
    consumers: tuple[NodeConsumer, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for `count` copies of a pod: `nodes` has the node of each copy that can run.

    `schedule_result` is the scheduler's result for the first copy that does not fit. `unmodelled` names the features
    that were not evaluated. `largest_allocatable` has, for each resource that no node has enough of, the largest
    allocatable amount of any node.
    """

    feasibility: Feasibility
    count: int
    nodes: tuple[str, ...]
    unmodelled: tuple[str, ...] = ()
    schedule_result: ScheduleResult | None = None
    largest_allocatable: Mapping[str, int] = field(default_factory=dict)

    @property
    def placed_count(self) -> int:
        """The number of copies that can run now."""
        return len(self.nodes)


_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATION = ("node.kubernetes.io/network-unavailable", "NoSchedule")

_POLICY_NEVER = "Never"
_MAX_DRY_RUNS = 3  # each one removes and restores every pod of a lower priority


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """A node, and its victims: the pods that preemption would evict. Another node may have other victims."""

    node: str
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class QuickPrediction:
    """The number of copies that fit, and the reason of the next one: a fit error, or victims to evict."""

    placed_count: int
    message: str = ""
    candidate: NodeVictims | None = None


def predict_copies(pod: SchedulingPod, cluster: Cluster, session: PlacementSession, count: int = 1) -> Prediction:
    """Place copies of a pod on a cluster until the session ends, and return the prediction for them.

    Raises:
        QuantityError: if a request, or the size of a claim or volume, is invalid.
        NoPriorityClassError: if the pod names a missing class.
        SelectorError: if a claim has an invalid selector.
    """
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    unmodelled = tuple(find_unmodelled(incoming, cluster))
    nodes = () if incoming.spec.scheduling_gates else session.place(pod, count)
    node_names = tuple(cluster.nodes.get_name(node_index) for node_index in nodes)
    if len(node_names) == count:
        return Prediction(Feasibility.UNKNOWN if unmodelled else Feasibility.NOW, count, node_names, unmodelled)
    result = schedule_one(pod, cluster)
    if node_names or not _is_unresolvable(incoming, cluster, result):
        return Prediction(Feasibility.NOT_NOW, count, node_names, unmodelled, result)
    return Prediction(
        Feasibility.NEVER, count, node_names, unmodelled, result, find_largest_allocatable(incoming, cluster)
    )


def _is_unresolvable(pod: IncomingPod, cluster: Cluster, result: ScheduleResult) -> bool:
    """Return whether the pod can never run on any evaluated node."""
    nodes = (
        None if result.diagnosis is None or result.diagnosis.pre_filter_status is not None else result.diagnosis.nodes
    )
    return nodes is not None and bool(len(nodes)) and bool(mask_unresolvable(pod, cluster, nodes).all())


def diagnose_node(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, node_index: int) -> NodeDiagnosis:
    """Return the diagnosis of one of the evaluated nodes."""
    columns = cluster.nodes
    reasons = diagnosis.reasons(node_index)
    if not reasons:
        return NodeDiagnosis(columns.get_name(node_index), ())
    shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
    (is_impossible,) = mask_unresolvable(pod, cluster, diagnosis.nodes[diagnosis.nodes == node_index]).tolist()
    return NodeDiagnosis(
        columns.get_name(node_index),
        reasons,
        shortfalls,
        not is_impossible,
        () if is_impossible else _find_top_consumers(cluster, node_index, shortfalls),
    )


def _find_top_consumers(cluster: Cluster, node_index: int, shortfalls: Iterable[Shortfall]) -> tuple[NodeConsumer, ...]:
    """Return the pods that use most of the short resources; the first resource decides."""
    names = [each.resource for each in shortfalls if each.resource != _PODS]
    consumers = [
        NodeConsumer(pod, amounts)
        for pod in cluster.get_node_pods(node_index).values()
        if (amounts := {name: pod.group.requests[name] for name in names if name in pod.group.requests})
    ]
    consumers.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(consumers[:MAX_CONSUMERS])


def predict_daemon_set(pod: SchedulingPod, cluster: Cluster, session: PlacementSession | None = None) -> Prediction:
    """Place a pod on each eligible node where it fits; `count` is the number of eligible nodes.

    The pods stay until the session ends, if there is one.

    Raises:
        QuantityError: if a request is invalid.
        NoPriorityClassError: if the pod names a missing class.
    """
    daemon = merge_label_keys(with_resolved_priority(with_daemon_tolerations(pod), cluster.priority_classes))
    incoming = IncomingPod.from_pod(daemon)
    diagnosis = run_filters(incoming, cluster, _find_target_nodes(incoming, cluster))
    unmodelled = tuple(find_unmodelled(incoming, cluster))
    if session is not None:
        for node_index in diagnosis.feasible.tolist():
            session.assume(daemon, node_index)
    node_names = tuple(cluster.nodes.get_name(node_index) for node_index in diagnosis.feasible.tolist())
    if len(node_names) == len(diagnosis.nodes):
        return Prediction(
            Feasibility.UNKNOWN if unmodelled else Feasibility.NOW, len(node_names), node_names, unmodelled
        )
    rejected = diagnosis.nodes if diagnosis.pre_filter_status else diagnosis.nodes[diagnosis.rejected]
    feasibility = Feasibility.NEVER if mask_unresolvable(incoming, cluster, rejected).all() else Feasibility.NOT_NOW
    result = schedule_one(_create_pod_for_node(daemon, cluster.nodes.get_name(int(rejected[0]))), cluster)
    return Prediction(feasibility, len(diagnosis.nodes), node_names, unmodelled, replace(result, diagnosis=diagnosis))


def with_daemon_tolerations(pod: SchedulingPod) -> SchedulingPod:
    """Return the pod with the tolerations that the controller adds to every pod of a DaemonSet."""
    spec = pod.spec or SchedulingPodSpec()
    tolerated_taints = (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.host_network else _DAEMON_TOLERATIONS
    tolerations = [Toleration(key, "Exists", effect=effect) for key, effect in tolerated_taints]
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *tolerations])
    )


def _find_target_nodes(pod: IncomingPod, cluster: Cluster) -> NodeIndices:
    """Return the nodes for which the controller makes a pod."""
    nodes = cluster.nodes.get_indices()
    is_target = ~node_eligibility.mask_untolerated_taints(pod, cluster)[nodes]
    for status in (
        *node_affinity.filter_node_name(pod, cluster, nodes),
        *node_affinity.filter_node_affinity(pod, cluster, nodes),
    ):
        is_target &= ~status.rejected
    return nodes[np.flatnonzero(is_target)]


def _create_pod_for_node(pod: SchedulingPod, node_name: str) -> SchedulingPod:
    """Return the pod for one node (ReplaceDaemonSetPodNodeNameNodeAffinity in daemon/util/daemonset_util.go)."""
    spec = pod.spec or SchedulingPodSpec()
    name_requirement = SelectorRequirement("metadata.name", "In", [node_name])
    affinity_to_node = NodeAffinity(NodeSelector([NodeSelectorTerm(match_fields=[name_requirement])]))
    affinity = msgspec.structs.replace(spec.affinity or Affinity(), node_affinity=affinity_to_node)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, affinity=affinity))


def predict_quickly(
    pod: SchedulingPod, incoming: IncomingPod, cluster: Cluster, count: int, diagnosis: Diagnosis
) -> QuickPrediction | None:
    """Predict the first copy of `count` that does not fit; `diagnosis` is that of the first copy.

    None if all fit, and if a few dry runs do not decide whether preemption helps.

    Raises:
        QuantityError: if a request is invalid.
    """
    if count == 1:
        return None if len(diagnosis.feasible) else _predict_next_copy(0, incoming, cluster, diagnosis)
    if is_independent(incoming) and int(count_max_copies(incoming, cluster, diagnosis.feasible).sum()) >= count:
        return None
    with open_placement_session(cluster) as session:
        placed_count = len(session.place(pod, count))
        return (
            None
            if placed_count == count
            else _predict_next_copy(placed_count, incoming, cluster, run_filters(incoming, cluster))
        )


def _predict_next_copy(
    placed_count: int, pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis
) -> QuickPrediction | None:
    """Predict a copy for which no node is feasible, after `placed_count` others."""
    nodes = _find_preemption_nodes(pod, cluster, diagnosis)
    for node_index in nodes[:_MAX_DRY_RUNS].tolist():
        result = select_victims_on_node(pod, cluster, node_index)
        if isinstance(result, PreemptionCandidate):
            return QuickPrediction(
                placed_count, candidate=NodeVictims(cluster.nodes.get_name(node_index), result.victims)
            )
    return (
        None
        if len(nodes) > _MAX_DRY_RUNS
        else QuickPrediction(placed_count, select_or_preempt(pod, cluster, diagnosis).message)
    )


def _find_preemption_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> NodeIndices:
    """Return the nodes on which preemption may help, the most likely first."""
    if pod.spec.preemption_policy == _POLICY_NEVER or diagnosis.pre_filter_status is not None:
        return diagnosis.nodes[:0]
    nodes = diagnosis.resolvable
    is_excluded, _ = exclude_hopeless_nodes(pod, cluster, nodes)
    return _sort_by_likelihood(pod, cluster, nodes[~is_excluded])


def _sort_by_likelihood(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    """Sort nodes that pass the inter-pod filters first: a node without free resources did not reach these filters."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for filter_nodes in (pod_topology_spread.filter_topology_spread, inter_pod_affinity.filter_inter_pod_affinity):
        for status in filter_nodes(pod, cluster, nodes) if len(nodes) > _MAX_DRY_RUNS else ():
            rejected |= status.rejected
    return np.concatenate([nodes[~rejected], nodes[rejected]])
