"""The plugins NodeUnschedulable, TaintToleration and NodeDeclaredFeatures.

Source: ToleratesTaint in k8s.io/api core/v1/toleration.go; plugins tainttoleration and nodeunschedulable, v1.36. The
comparison operators of tolerations (Lt, Gt) are off by default there, and match nothing here.

Source of the features, which only nodes of some versions declare: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go
and component-helpers nodedeclaredfeatures/features, v1.36.
"""

from collections.abc import Iterable, Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.scheduling.filter_status import FilterStatus, mark_unresolvable
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.objects.scheduling import SchedulingPodSpec, Taint, Toleration

BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""The taint effects that exclude pods."""

_CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


def filter_node_unschedulable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject cordoned nodes (`kubectl cordon`)."""
    if not is_tolerated(pod.spec.tolerations or (), _CORDON_TAINT):
        yield mark_unresolvable("node(s) were unschedulable", cluster.nodes.unschedulable[nodes])


def filter_taint_toleration(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes with a taint that the pod does not tolerate."""
    yield mark_unresolvable("node(s) had untolerated taint(s)", mask_untolerated_taints(pod, cluster)[nodes])


def mask_untolerated_taints(pod: IncomingPod, cluster: Cluster) -> Mask:
    """Return a mask of the nodes with an untolerated taint. Each distinct set of taints is tested once."""
    toleration_index = _TolerationIndex(pod.spec.tolerations or ())
    return cluster.nodes.taints.mask_matching(
        lambda taints: (
            not all(map(toleration_index.has_match, (each for each in taints if each.effect in BLOCKING_EFFECTS)))
        )
    )


def is_tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations matches a taint."""
    return _TolerationIndex(tolerations).has_match(taint)


class _TolerationIndex:
    """Tolerations, indexed for lookup: a pod may have thousands of them, and nodes may have thousands of taints."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._equal: set[tuple[str, str, str]] = set()
        self._exists: set[tuple[str, str]] = set()
        for toleration in tolerations:
            match toleration.operator or "Equal":
                case "Equal":
                    self._equal.add((toleration.key or "", toleration.effect or "", toleration.value or ""))
                case "Exists":
                    self._exists.add((toleration.key or "", toleration.effect or ""))

    def has_match(self, taint: Taint) -> bool:
        """Return whether a toleration matches a taint. An empty key matches every key, an empty effect every effect."""
        return any(
            (key, effect) in self._exists or (key, effect, taint.value or "") in self._equal
            for key in {taint.key, ""}
            for effect in {taint.effect, ""}
        )


def filter_node_declared_features(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that do not declare every feature that the pod requires."""
    required = frozenset(_list_required_features(pod.spec))
    if required:
        is_capable = cluster.nodes.features.mask_matching(lambda declared: required <= declared)
        yield mark_unresolvable("node(s) didn't match Pod's required features", ~is_capable[nodes])


def _list_required_features(spec: SchedulingPodSpec) -> Iterator[str]:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules or ()):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
