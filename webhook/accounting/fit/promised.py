"""Pods that nodes are promised to, and to which others yield.

Source: addGENominatedPods in framework/runtime/framework.go, v1.36.
"""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import NodeIndices


def find_nominated_pods(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> dict[int, list[PodInfo]]:
    """The pods of the same or a higher priority that some of these nodes are promised to, by their index."""
    pods_by_position: dict[int, list[PodInfo]] = {}
    for node_index, nominated_pods in cluster.get_nominated_pods().items():
        rivals = [
            each for each in nominated_pods.values() if each.group.priority >= pod.priority and each.uid != pod.uid
        ]
        for position in (nodes == node_index).nonzero()[0].tolist() if rivals else ():
            pods_by_position[position] = rivals
    return pods_by_position
