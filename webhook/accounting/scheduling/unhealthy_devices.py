"""The devices that nodes have and cannot give, since their device plugin reports them as unhealthy, for one pod.

The kubelet counts them in the capacity of a node and not in its allocatable amount (GetCapacity in
pkg/kubelet/cm/devicemanager/manager.go, v1.36).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod


@dataclass(frozen=True, slots=True)
class UnhealthyDevices:
    """The unhealthy devices of one resource on one node."""

    node: str
    resource: str
    unhealthy: int
    capacity: int

    def __str__(self) -> str:
        """Return the numbers with the resource and the node."""
        return f"{self.unhealthy} of {self.capacity} {self.resource} unhealthy on {self.node}"


def list_unhealthy_devices(pod: IncomingPod, cluster: Cluster) -> tuple[UnhealthyDevices, ...]:
    """Return the unhealthy devices of the resources that a pod requests, by node and resource."""
    return tuple(sorted(_find_unhealthy(pod, cluster), key=lambda each: (each.node, each.resource)))


def _find_unhealthy(pod: IncomingPod, cluster: Cluster) -> Iterator[UnhealthyDevices]:
    for node_index, amounts in cluster.nodes.unhealthy.items():
        allocatable = cluster.nodes.get_allocatable(node_index)
        for name in amounts.keys() & pod.requests.keys():
            capacity = amounts[name] + allocatable.get(name, 0)
            yield UnhealthyDevices(cluster.nodes.get_name(node_index), name, amounts[name], capacity)
