"""A fork of a cluster: temporary changes of its pods, which are reverted."""

from collections.abc import Iterator
from contextlib import contextmanager

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo


class ClusterFork:
    """The changes of a fork. A caller may remove, restore and assume each pod any number of times."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._original_pods: dict[str, PodInfo] = {}
        self._original_order: dict[int, list[str]] = {}

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod from its node."""
        self._save_original(pod)
        self._cluster.remove_pod(pod.uid)
        self._record_change(pod, -1)

    def restore(self, pod: PodInfo) -> None:
        """Restore a pod that the fork removed."""
        self._cluster.put_pod(pod)
        self._record_change(pod, 0)

    def assume(self, pod: PodInfo) -> None:
        """Put a pod on its nominated node."""
        self._save_original(pod)
        assumed = pod._replace(node=pod.nominated_node, nominated_node="")
        self._cluster.put_pod(assumed)
        self._record_change(assumed, 1)

    def revert(self) -> None:
        """Revert every change, including the order of the pods on their nodes."""
        for uid, pod in self._original_pods.items():
            self._cluster.put_pod(pod)
            self._cluster.fork_changes.pop(uid, None)
        for index, uids in self._original_order.items():
            if uids:
                self._cluster.reorder_node_pods(index, uids)

    def _record_change(self, pod: PodInfo, change: int) -> None:
        """Record a change as the latest one."""
        self._cluster.fork_changes.pop(pod.uid, None)
        self._cluster.fork_changes[pod.uid] = (pod, change)

    def _save_original(self, pod: PodInfo) -> None:
        index = self._cluster.nodes.acquire_index(pod.node or pod.nominated_node)
        self._original_order.setdefault(index, list(self._cluster.get_node_pods(index)))
        self._original_pods.setdefault(pod.uid, pod)


@contextmanager
def fork(cluster: Cluster) -> Iterator[ClusterFork]:
    """Yield a fork of the cluster and revert every change on exit."""
    cluster_fork = ClusterFork(cluster)
    try:
        yield cluster_fork
    finally:
        cluster_fork.revert()
