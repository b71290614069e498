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
    tolerated = _Tolerated(pod.spec.tolerations or ())
    return cluster.nodes.taints.mask_matching(
        lambda taints: not all(map(tolerated.has, (each for each in taints if each.effect in KEEPING_OUT)))
    )


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations is for this taint."""
    return _Tolerated(tolerations).has(taint)


class _Tolerated:
    """What tolerations are for, to be looked up: a pod may have thousands, and so may nodes have taints."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._equal: set[tuple[str, str, str]] = set()
        self._there: set[tuple[str, str]] = set()
        for each in tolerations:
            match each.operator or "Equal":
                case "Equal":
                    self._equal.add((each.key or "", each.effect or "", each.value or ""))
                case "Exists":
                    self._there.add((each.key or "", each.effect or ""))

    def has(self, taint: Taint) -> bool:
        """Whether one is for this taint. One without a key is for every key, without an effect for every effect."""
        return any(
            (key, effect) in self._there or (key, effect, taint.value or "") in self._equal
            for key in {taint.key, ""}
            for effect in {taint.effect, ""}
        )
