"""A pod for every node that takes it, as a DaemonSet makes them.

Source: nodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in pkg/controller/daemon, v1.36. The controller makes
a pod for each node whose taints and labels let it in; the scheduler then asks that node alone.
"""

import msgspec
import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.terms import stored
from webhook.accounting.fit import node_affinity, taints
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.rejection import Places
from webhook.accounting.fit.room import Visit
from webhook.objects.scheduling import PlacedPod, PlacedSpec, Toleration

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def everywhere(pod: PlacedPod, cluster: Cluster, visit: Visit) -> Filtered:
    """Place a pod on each node that is to have it and has room; what the nodes say that are to have it.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
        NoPriorityClassError: it names a class that is not there.
    """
    daemon = stored(prioritised(_tolerating(pod), cluster.priorities))
    incoming = Incoming.of(daemon)
    said = filtered(incoming, cluster, _meant(incoming, cluster))
    for place in said.fitting.tolist():
        visit.put(daemon, place)
    return said


def _meant(pod: Incoming, cluster: Cluster) -> Places:
    """The nodes that the controller makes a pod for."""
    places = cluster.nodes.places()
    meant = ~taints.keeps_out(pod, cluster)[places]
    for rejection in (*node_affinity.misnamed(pod, cluster, places), *node_affinity.unwanted(pod, cluster, places)):
        meant &= ~rejection.nodes
    return places[np.flatnonzero(meant)]


def _tolerating(pod: PlacedPod) -> PlacedPod:
    """The pod with what the controller lets every pod of a DaemonSet tolerate."""
    spec = pod.spec or PlacedSpec()
    tolerated = (*_TOLERATED, _ON_HOST_NETWORK) if spec.host_network else _TOLERATED
    more = [Toleration(key, "Exists", effect=effect) for key, effect in tolerated]
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *more])
    )
