"""What a pod needs a node to be able to do, of what nodes of some versions can.

Source: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go and component-helpers nodedeclaredfeatures/features, v1.36.
"""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places, Rejection, for_good
from webhook.objects.scheduling import SchedulingPodSpec


def lacking(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that do not declare all that the pod needs."""
    needed = frozenset(_needed(pod.spec))
    if needed:
        able = cluster.nodes.features.mask_matching(lambda declared: needed <= declared)
        yield for_good("node(s) didn't match Pod's required features", ~able[places])


def _needed(spec: SchedulingPodSpec) -> Iterator[str]:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules or ()):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
