"""The answer to whether copies of a pod can run: now, later, never, or as far as is known; node by node if asked.

A pod for every node that takes it, as a DaemonSet makes them.

Source: nodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in pkg/controller/daemon, v1.36. The controller makes
a pod for each node whose taints and labels let it in; the scheduler then asks that node alone.

Whether copies of a pod have room now, and if not, whether the scheduler makes room, as far as that is soon told.

`answer` and `verdict` say it to the letter, and try a hundred nodes for whom to ask to leave. Here a few are tried.
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
"""Pods that are told of a node."""
_PODS = "pods"


class Feasibility(StrEnum):
    """Whether all copies can run."""

    NOW = "fits now"
    NOT_NOW = "not now"
    NEVER = "never on these nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeConsumer:
    """A pod on a node that lacks something of which that pod has `amounts`."""

    pod: PodInfo
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """What one node says: `reasons` in the scheduler's words, none when the pod fits.

    `shortfalls` are all that it lacks, `ever` whether the pod could run there if others left, `holders` the pods that
    have most of what is short, at most five.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    can_ever_run: bool = True
    consumers: tuple[NodeConsumer, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What becomes of `copies` of a pod: those that can run, and on which nodes, one entry for each.

    `verdict` is what the scheduler comes to with the first that cannot; `unknown` names what could not be judged;
    `largest` is the most that any node has of what no node has enough of.
    """

    feasibility: Feasibility
    count: int
    nodes: tuple[str, ...]
    unmodelled: tuple[str, ...] = ()
    schedule_result: ScheduleResult | None = None
    largest_allocatable: Mapping[str, int] = field(default_factory=dict)

    @property
    def placed_count(self) -> int:
        """How many copies can run now."""
        return len(self.nodes)


def predict_copies(pod: SchedulingPod, cluster: Cluster, session: PlacementSession, count: int = 1) -> Prediction:
    """Place copies of a pod on a cluster, for as long as the visit lasts, and say what becomes of them.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
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


def diagnose_node(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, node_index: int) -> NodeDiagnosis:
    """What one of the nodes says that were asked."""
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


def _is_unresolvable(pod: IncomingPod, cluster: Cluster, result: ScheduleResult) -> bool:
    """Whether no node that was asked can ever run the pod."""
    nodes = (
        None if result.diagnosis is None or result.diagnosis.pre_filter_status is not None else result.diagnosis.nodes
    )
    return nodes is not None and bool(len(nodes)) and bool(mask_unresolvable(pod, cluster, nodes).all())


def _find_top_consumers(cluster: Cluster, node_index: int, shortfalls: Iterable[Shortfall]) -> tuple[NodeConsumer, ...]:
    """The pods that have most of what is short there; of several things, of the first."""
    names = [each.resource for each in shortfalls if each.resource != _PODS]
    consumers = [
        NodeConsumer(pod, amounts)
        for pod in cluster.get_node_pods(node_index).values()
        if (amounts := {name: pod.group.requests[name] for name in names if name in pod.group.requests})
    ]
    consumers.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(consumers[:MAX_CONSUMERS])


_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATION = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def predict_daemon_set(pod: SchedulingPod, cluster: Cluster, session: PlacementSession | None = None) -> Prediction:
    """Place a pod on each node that is to have it and has room; the copies are as many as are to have it.

    They stay for as long as the visit lasts, if there is one.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
        NoPriorityClassError: it names a class that is not there.
    """
    daemon = merge_label_keys(with_resolved_priority(with_daemon_tolerations(pod), cluster.priority_classes))
    incoming = IncomingPod.from_pod(daemon)
    diagnosis = run_filters(incoming, cluster, _find_target_nodes(incoming, cluster))
    unmodelled = tuple(find_unmodelled(incoming, cluster))
    if session is not None:
        for node_index in diagnosis.feasible.tolist():
            session.assume(daemon, node_index)
    node_names = tuple(cluster.nodes.get_name(place) for place in diagnosis.feasible.tolist())
    if len(node_names) == len(diagnosis.nodes):
        return Prediction(
            Feasibility.UNKNOWN if unmodelled else Feasibility.NOW, len(node_names), node_names, unmodelled
        )
    rejected = diagnosis.nodes if diagnosis.pre_filter_status else diagnosis.nodes[diagnosis.rejected]
    feasibility = Feasibility.NEVER if mask_unresolvable(incoming, cluster, rejected).all() else Feasibility.NOT_NOW
    result = schedule_one(_create_pod_for_node(daemon, cluster.nodes.get_name(int(rejected[0]))), cluster)
    return Prediction(feasibility, len(diagnosis.nodes), node_names, unmodelled, replace(result, diagnosis=diagnosis))


def _find_target_nodes(pod: IncomingPod, cluster: Cluster) -> NodeIndices:
    """The nodes that the controller makes a pod for."""
    nodes = cluster.nodes.get_indices()
    is_target = ~node_eligibility.mask_untolerated_taints(pod, cluster)[nodes]
    for status in (
        *node_affinity.filter_node_name(pod, cluster, nodes),
        *node_affinity.filter_node_affinity(pod, cluster, nodes),
    ):
        is_target &= ~status.rejected
    return nodes[np.flatnonzero(is_target)]


def _create_pod_for_node(pod: SchedulingPod, node_name: str) -> SchedulingPod:
    """The pod that is made for one node (ReplaceDaemonSetPodNodeNameNodeAffinity in daemon/util/daemonset_util.go)."""
    spec = pod.spec or SchedulingPodSpec()
    name_requirement = SelectorRequirement("metadata.name", "In", [node_name])
    affinity_to_node = NodeAffinity(NodeSelector([NodeSelectorTerm(match_fields=[name_requirement])]))
    affinity = msgspec.structs.replace(spec.affinity or Affinity(), node_affinity=affinity_to_node)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, affinity=affinity))


def with_daemon_tolerations(pod: SchedulingPod) -> SchedulingPod:
    """The pod with what the controller lets every pod of a DaemonSet tolerate."""
    spec = pod.spec or SchedulingPodSpec()
    tolerated_taints = (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.host_network else _DAEMON_TOLERATIONS
    tolerations = [Toleration(key, "Exists", effect=effect) for key, effect in tolerated_taints]
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *tolerations])
    )


_POLICY_NEVER = "Never"
_MAX_DRY_RUNS = 3  # on each, every pod of a lower priority is thought away and back


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """On this node `pods` would have to leave, all of a lower priority; others may be asked on another."""

    node: str
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class QuickPrediction:
    """So many copies are `placed`, and the next has no room: in the scheduler's words, or since others must `leave`."""

    placed_count: int
    message: str = ""
    candidate: NodeVictims | None = None


def predict_quickly(
    pod: SchedulingPod, incoming: IncomingPod, cluster: Cluster, count: int, diagnosis: Diagnosis
) -> QuickPrediction | None:
    """What keeps some of so many copies out, of which nodes say `first` to the first.

    None when all have room, and when it is not soon told whether others would be asked to leave.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
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
    """Of a copy to which nodes say this, which none of them takes."""
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
    """The nodes on which asking others to leave may help."""
    if pod.spec.preemption_policy == _POLICY_NEVER or diagnosis.pre_filter_status is not None:
        return diagnosis.nodes[:0]
    nodes = diagnosis.resolvable
    is_excluded, _ = exclude_hopeless_nodes(pod, cluster, nodes)
    return _sort_by_likelihood(pod, cluster, nodes[~is_excluded])


def _sort_by_likelihood(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    """First those that the pod's company lets it be on as it is: of a node without room the filters ask no further."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for filter_nodes in (pod_topology_spread.filter_topology_spread, inter_pod_affinity.filter_inter_pod_affinity):
        for status in filter_nodes(pod, cluster, nodes) if len(nodes) > _MAX_DRY_RUNS else ():
            rejected |= status.rejected
    return np.concatenate([nodes[~rejected], nodes[rejected]])
