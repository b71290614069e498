"""Taints and tolerations, and nodes that are closed.

Source: ToleratesTaint in k8s.io/api core/v1/toleration.go; plugins tainttoleration and nodeunschedulable, v1.36. The
comparing operators of tolerations (Lt, Gt) are off by default there, and match nothing here.
"""

from collections.abc import Iterable, Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good
from webhook.objects.scheduling import Taint, Toleration

KEEPING_OUT = frozenset({"NoSchedule", "NoExecute"})
"""The effects of taints that keep pods out."""

_CLOSED = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


def unschedulable(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that are closed (`kubectl cordon`)."""
    if not tolerates(pod.spec.tolerations or (), _CLOSED):
        yield for_good("node(s) were unschedulable", cluster.nodes.unschedulable[places])


def tainted(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes with a taint that keeps the pod out."""
    yield for_good("node(s) had untolerated taint(s)", keeps_out(pod, cluster)[places])


def keeps_out(pod: Incoming, cluster: Cluster) -> Mask:
    """At which places of a cluster a taint keeps the pod out. Each set of taints is looked at once."""
    tolerations = pod.spec.tolerations or ()
    return cluster.nodes.taints.where(lambda taints: not _tolerates_all(tolerations, taints))


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations is for this taint."""
    return any(_is_for(each, taint) for each in tolerations)


def _tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    return all(tolerates(tolerations, taint) for taint in taints if taint.effect in KEEPING_OUT)


def _is_for(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator or "Equal":
        case "Equal":
            return (toleration.value or "") == (taint.value or "")
        case "Exists":
            return True
        case _:
            return False
