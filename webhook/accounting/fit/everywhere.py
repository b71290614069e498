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
from webhook.accounting.fit.answer import Answer, Kind, open_questions
from webhook.accounting.fit.filtering import filtered
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.rejection import Places
from webhook.accounting.fit.room import Visit
from webhook.accounting.fit.verdict import verdict
from webhook.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement
from webhook.objects.scheduling import Affinity, NodeAffinity, SchedulingPod, SchedulingPodSpec, Toleration

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def everywhere(pod: SchedulingPod, cluster: Cluster, visit: Visit | None = None) -> Answer:
    """Place a pod on each node that is to have it and has room; the copies are as many as are to have it.

    They stay for as long as the visit lasts, if there is one.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
        NoPriorityClassError: it names a class that is not there.
    """
    daemon = merge_label_keys(prioritised(tolerating(pod), cluster.priority_classes))
    incoming = Incoming.of(daemon)
    said = filtered(incoming, cluster, _meant(incoming, cluster))
    questions = tuple(open_questions(incoming, cluster))
    if visit is not None:
        for place in said.fitting.tolist():
            visit.put(daemon, place)
    names = tuple(cluster.nodes.get_name(place) for place in said.fitting.tolist())
    if len(names) == len(said.places):
        return Answer(Kind.UNKNOWN if questions else Kind.NOW, len(names), names, questions)
    left = said.places if said.refused else said.places[said.rejected]
    kind = Kind.NEVER if impossible(incoming, cluster, left).all() else Kind.NOT_NOW
    told = verdict(_meant_for(daemon, cluster.nodes.get_name(int(left[0]))), cluster)
    return Answer(kind, len(said.places), names, questions, replace(told, said=said))


def _meant(pod: Incoming, cluster: Cluster) -> Places:
    """The nodes that the controller makes a pod for."""
    places = cluster.nodes.get_indices()
    meant = ~taints.keeps_out(pod, cluster)[places]
    for rejection in (*node_affinity.misnamed(pod, cluster, places), *node_affinity.unwanted(pod, cluster, places)):
        meant &= ~rejection.nodes
    return places[np.flatnonzero(meant)]


def _meant_for(pod: SchedulingPod, node: str) -> SchedulingPod:
    """The pod that is made for one node (ReplaceDaemonSetPodNodeNameNodeAffinity in daemon/util/daemonset_util.go)."""
    spec = pod.spec or SchedulingPodSpec()
    name = SelectorRequirement("metadata.name", "In", [node])
    only = NodeAffinity(NodeSelector([NodeSelectorTerm(match_fields=[name])]))
    affinity = msgspec.structs.replace(spec.affinity or Affinity(), node_affinity=only)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, affinity=affinity))


def tolerating(pod: SchedulingPod) -> SchedulingPod:
    """The pod with what the controller lets every pod of a DaemonSet tolerate."""
    spec = pod.spec or SchedulingPodSpec()
    tolerated = (*_TOLERATED, _ON_HOST_NETWORK) if spec.host_network else _TOLERATED
    more = [Toleration(key, "Exists", effect=effect) for key, effect in tolerated]
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *more])
    )
