"""Pods that nodes are promised to, and to which others yield.

Source: addGENominatedPods in framework/runtime/framework.go, v1.36.
"""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places


def rivals(pod: Incoming, cluster: Cluster, asked: Places) -> dict[int, list[PodInfo]]:
    """The pods of the same or a higher priority that some of these nodes are promised to, by their index."""
    found: dict[int, list[PodInfo]] = {}
    for place, waiting in cluster.get_nominated_pods().items():
        first = [each for each in waiting.values() if each.group.priority >= pod.priority and each.uid != pod.uid]
        for index in (asked == place).nonzero()[0].tolist() if first else ():
            found[index] = first
    return found
