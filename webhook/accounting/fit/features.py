"""What a pod needs a node to be able to do, of what nodes of some versions can.

Source: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go and component-helpers nodedeclaredfeatures/features, v1.36.
"""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import FilterStatus, NodeIndices, mark_unresolvable
from webhook.objects.scheduling import SchedulingPodSpec


def filter_node_declared_features(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes that do not declare all that the pod needs."""
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
