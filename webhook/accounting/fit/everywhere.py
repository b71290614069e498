"""A pod for every node that takes it, as a DaemonSet makes them.

Source: nodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in pkg/controller/daemon, v1.36. The controller makes
a pod for each node whose taints and labels let it in; the scheduler then asks that node alone.
"""

from dataclasses import replace

import msgspec
import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.fit import node_affinity, taints
from webhook.accounting.fit.answer import Feasibility, Prediction, find_unmodelled
from webhook.accounting.fit.filtering import run_filters
from webhook.accounting.fit.impossible import mask_unresolvable
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.priority import with_resolved_priority
from webhook.accounting.fit.rejection import NodeIndices
from webhook.accounting.fit.room import PlacementSession
from webhook.accounting.fit.verdict import schedule_one
from webhook.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement
from webhook.objects.scheduling import Affinity, NodeAffinity, SchedulingPod, SchedulingPodSpec, Toleration

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
    is_target = ~taints.mask_untolerated_taints(pod, cluster)[nodes]
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
