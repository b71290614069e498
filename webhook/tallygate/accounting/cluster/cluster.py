"""A cluster as a scheduler knows it, the device classes that stand for its extended resources, and forks of a cluster.

Callers change the cluster by one object at a time. A fork is a temporary change of its pods, which is reverted.

Source of the device classes: dynamic-resource-allocation deviceclass/extendedresourcecache, v1.36; KEP-5004.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from tallygate.accounting.charge import PODS
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.node_columns import NodeColumns, PriorityUsage
from tallygate.accounting.cluster.node_pools import NodePools
from tallygate.accounting.cluster.pod_groups import PodGroups
from tallygate.accounting.cluster.pod_indexes import AntiAffinityIndex, LabelIndex, SelectorCounts
from tallygate.accounting.cluster.pod_info import HostPort, PodInfo, SchedulingGroupInterner
from tallygate.accounting.cluster.storage_index import StorageIndex
from tallygate.accounting.kubernetes_versions.version import (
    DEFAULT_VERSION,
    KubernetesVersion,
    parse_minor,
    select_version,
)
from tallygate.accounting.names import DEVICE_CLASS_PREFIX
from tallygate.accounting.pod_defaults import LimitRangeIndex, PodDefaults, create_pod_defaults
from tallygate.objects.devices import DeviceClass
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodDisruptionBudget, PriorityClass, RuntimeClass, SchedulingNode


class DeviceClasses:
    """The device classes of a cluster by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceClass] = {}
        self._resource_by_class: dict[str, str] = {}
        self._classes_by_resource: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._resource_by_class)

    def put(self, device_class: DeviceClass) -> None:
        """Add a class, or replace its previous version."""
        name = (device_class.metadata or ObjectMeta()).name or ""
        resource = (device_class.spec.extended_resource_name if device_class.spec else None) or ""
        if self._resource_by_class.get(name) == resource:
            self.by_name[name] = device_class
            return
        self.remove(name)
        self.by_name[name] = device_class
        self._resource_by_class[name] = resource
        if resource:
            self._classes_by_resource.setdefault(resource, {})[name] = None

    def remove(self, name: str) -> None:
        self.by_name.pop(name, None)
        resource = self._resource_by_class.pop(name, "")
        classes = self._classes_by_resource.get(resource)
        if classes is not None:
            del classes[name]
            if not classes:
                del self._classes_by_resource[resource]

    def find_class(self, resource: str) -> str | None:
        """Return the class whose devices serve a resource on nodes without it; None when no class does.

        Of several classes it is the newest one, and of those of one second the first by name.
        """
        class_name = resource.removeprefix(DEVICE_CLASS_PREFIX)
        if class_name != resource and class_name in self._resource_by_class:
            return class_name
        names = self._classes_by_resource.get(resource)
        return max(sorted(names), key=self._get_creation_time) if names else None

    def _get_creation_time(self, name: str) -> str:
        return (self.by_name[name].metadata or ObjectMeta()).creation_timestamp or ""


K = TypeVar("K")

_NO_PODS: Mapping[str, PodInfo] = MappingProxyType({})
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Cluster:
    """Nodes, the pods on them, and namespaces with their labels.

    `label_index` has the scheduling groups of pods on nodes, `anti_affinity_index` the terms by which these pods repel
    others. `selector_counts` counts the pods that a selector matches, `priority_usage` the amounts that pods use, by
    priority. `storage` stays None while no object about volumes is known, and `devices` while the slices and claims of
    devices are not; `devices_problem` is then the reason, if it is known. `limit_ranges` and `runtime_classes` stay
    None while these kinds are not known. `pools` has the pools of the nodes that `ingest` put in. `fork_changes` has
    the pods that a fork removed (-1), restored (0) or assumed (1), by UID, the latest change last (see `fork`).
    `pod_groups` are the PodGroups with their pods, as far as a builder puts them in.
    `version` is the version of Kubernetes whose rules apply, `git_version` the version that the cluster reports, as
    `v1.37.2`, or None; `is_version_chosen` is set if the rules do not follow it. `now` is the time of this state, None
    if it is not known.
    """

    def __init__(self, version: KubernetesVersion = DEFAULT_VERSION) -> None:
        self.version = version
        self.git_version: str | None = None
        self.is_version_chosen = False
        self.nodes = NodeColumns()
        self.pools = NodePools()
        self.groups = SchedulingGroupInterner(version)
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.limit_ranges: LimitRangeIndex | None = None
        self.runtime_classes: dict[str, RuntimeClass] | None = None
        self.budgets: list[PodDisruptionBudget] = []
        self.pod_groups = PodGroups()
        self.storage: StorageIndex | None = None
        self.devices: DeviceIndex | None = None
        self.devices_problem = ""
        self.now: datetime | None = None
        self.device_classes = DeviceClasses()
        self.fork_changes: dict[str, tuple[PodInfo, int]] = {}
        self.label_index = LabelIndex()
        self.anti_affinity_index = AntiAffinityIndex()
        self.selector_counts = SelectorCounts(self.label_index)
        self.priority_usage = PriorityUsage()
        self._pods: dict[str, PodInfo] = {}
        self._pods_by_node: dict[int, dict[str, PodInfo]] = {}
        self._nominated_by_node: dict[int, dict[str, PodInfo]] = {}
        self._port_users: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        self._claim_users: dict[tuple[str, str], dict[int, int]] = {}
        self._volume_counts: dict[int, int] = {}
        self._ephemeral_volume_counts: dict[int, int] = {}

    def find_pod_defaults(self, namespace: str) -> PodDefaults:
        """Return the values that built-in admission gives new pods of a namespace; every cluster has some classes."""
        return create_pod_defaults(
            self.limit_ranges.list_in(namespace) if self.limit_ranges is not None else (),
            self.priority_classes,
            self.runtime_classes or {},
            has_limit_ranges=self.limit_ranges is not None,
            has_priority_classes=bool(self.priority_classes),
            has_runtime_classes=self.runtime_classes is not None,
            version=self.version,
        )

    def __len__(self) -> int:
        return len(self._pods)

    def set_version(self, git_version: str) -> None:
        """Set the version that the cluster reports, and select its rules unless they are chosen; put pods in later."""
        self.git_version = git_version
        if not self.is_version_chosen:
            self._apply_version(select_version(parse_minor(git_version)))

    def choose_version(self, version: KubernetesVersion) -> None:
        """Choose the rules, whatever version the cluster reports; put pods in afterwards."""
        self.is_version_chosen = True
        self._apply_version(version)

    def _apply_version(self, version: KubernetesVersion) -> None:
        self.version = version
        self.groups = SchedulingGroupInterner(version)

    def put_node(self, node: SchedulingNode) -> None:
        """Add a node, or replace its previous version.

        Raises:
            QuantityError: if an allocatable quantity is invalid; the cluster is unchanged.
        """
        self.nodes.put(node)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay until the caller removes them."""
        self.nodes.remove(name)

    def put_pod(self, pod: PodInfo) -> None:
        """Add a pod, or replace its previous version."""
        self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        index = self.nodes.acquire_index(pod.node or pod.nominated_node)
        if pod.node:
            self._pods_by_node.setdefault(index, {})[pod.uid] = pod
            self._count_pod(pod, index, 1)
        else:
            self._nominated_by_node.setdefault(index, {})[pod.uid] = pod

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod and return it; return None if it is missing."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        index = self.nodes.acquire_index(pod.node or pod.nominated_node)
        pods_by_node = self._pods_by_node if pod.node else self._nominated_by_node
        del pods_by_node[index][uid]
        if not pods_by_node[index]:
            del pods_by_node[index]
        if pod.node:
            self._count_pod(pod, index, -1)
        if index not in self._nominated_by_node:
            self.nodes.release_index(index)
        return pod

    def find_pod(self, uid: str) -> PodInfo | None:
        """Return a pod by UID; None if it is missing."""
        return self._pods.get(uid)

    def list_pods(self) -> Iterable[PodInfo]:
        return self._pods.values()

    def sum_allocatable(self, resource: str) -> int | None:
        """Return what all nodes have of a resource; None if no node has had any."""
        column = self.nodes.find_allocatable_column(resource)
        return None if column is None else int(sum(column.array[self.nodes.get_indices()].tolist()))

    def sum_free(self, resource: str) -> int | None:
        """Return what pods leave free of a resource on all nodes; None if no node has had any."""
        column, indices = self.nodes.find_allocatable_column(resource), self.nodes.get_indices()
        if column is None:
            return None
        allocatable = column.array[indices].tolist()
        if resource == PODS:
            used = [len(self.get_node_pods(index)) for index in indices.tolist()]
        else:
            used_column = self.nodes.find_used_column(resource)
            used = [0] * len(allocatable) if used_column is None else used_column.array[indices].tolist()
        return int(sum(max(has - uses, 0) for has, uses in zip(allocatable, used, strict=True)))

    def get_node_pods(self, index: int) -> Mapping[str, PodInfo]:
        """Return the pods on a node, by UID."""
        return self._pods_by_node.get(index, _NO_PODS)

    def get_nominated_pods(self) -> Mapping[int, Mapping[str, PodInfo]]:
        """Return the pods that have a nominated node and no node, by node index and UID."""
        return self._nominated_by_node

    def reorder_node_pods(self, index: int, uids: Iterable[str]) -> None:
        """Set the order in which `get_node_pods` returns the pods on a node."""
        pods = self._pods_by_node.get(index, {})
        self._pods_by_node[index] = {uid: pods[uid] for uid in uids}

    def count_claim_users(self, namespace: str, claim: str) -> int:
        """Return the number of volumes that name a claim, of the pods on existing nodes."""
        nodes, counts = self.nodes, self._claim_users.get((namespace, claim), {})
        return sum(volumes for index, volumes in counts.items() if nodes.find_index(nodes.get_name(index)) is not None)

    def get_volume_counts(self) -> Mapping[int, int]:
        """Return the number of pod volumes that matter to scheduling, by node index, without zeros."""
        return self._volume_counts

    def get_ephemeral_volume_counts(self) -> Mapping[int, int]:
        """Return the number of pod volumes with a generic ephemeral claim, by node index, without zeros."""
        return self._ephemeral_volume_counts

    def get_namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; an empty mapping if the namespace is unknown."""
        return self.namespaces.get(namespace, _NO_LABELS)

    def get_port_users(self, port: HostPort) -> Mapping[int, Counter[str]]:
        """Return the number of pods that use a host port, by node index and address."""
        return self._port_users.get((port.protocol, port.number), {})

    def _count_pod(self, pod: PodInfo, index: int, count: int) -> None:
        """Add a pod to the counts of a node (1), or subtract it (-1)."""
        group = pod.group
        self.nodes.add_usage(index, group.requests, group.non_zero_requests, count)
        self.priority_usage.count(group.priority, index, group.requests, count, self.nodes.size)
        if not group.pod_counts:
            self.label_index.add(group)
        _add_count(group.pod_counts, index, count)
        if not group.pod_counts:
            self.label_index.remove(group)
        if pod.is_terminating:
            _add_count(group.terminating_counts, index, count)
        self.selector_counts.record_change(group, index, count, count if pod.is_terminating else 0)
        for term in group.anti_affinity:
            self.anti_affinity_index.count(term, index, count)
        for port in group.ports:
            self._count_port(port, index, count)
        if pod.volumes:
            self._count_volumes(pod, index, count)

    def _count_volumes(self, pod: PodInfo, index: int, count: int) -> None:
        """Add a pod's volumes to the counts of a node (1), or subtract them (-1)."""
        _add_count(self._volume_counts, index, count * len(pod.volumes))
        for volume in pod.volumes:
            if volume.persistent_volume_claim is not None:
                self._count_claim((pod.namespace, volume.persistent_volume_claim.claim_name), index, count)
            elif volume.ephemeral is not None:
                _add_count(self._ephemeral_volume_counts, index, count)

    def _count_claim(self, claim: tuple[str, str], index: int, count: int) -> None:
        counts = self._claim_users.setdefault(claim, {})
        _add_count(counts, index, count)
        if not counts:
            del self._claim_users[claim]

    def _count_port(self, port: HostPort, index: int, count: int) -> None:
        users_by_node = self._port_users.setdefault((port.protocol, port.number), {})
        addresses = users_by_node.setdefault(index, Counter())
        _add_count(addresses, port.address, count)
        if not addresses:
            del users_by_node[index]
        if not users_by_node:
            del self._port_users[port.protocol, port.number]


def _add_count(counts: dict[K, int], key: K, increment: int) -> None:
    total = counts.get(key, 0) + increment
    if total:
        counts[key] = total
    else:
        del counts[key]


class ClusterFork:
    """The changes of a fork. A caller may remove, restore and assume each pod any number of times."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._original_pods: dict[str, PodInfo] = {}
        self._original_order: dict[int, list[str]] = {}

    def remove(self, pod: PodInfo) -> None:
        self._save_original(pod)
        self._cluster.remove_pod(pod.uid)
        self._record_change(pod, -1)

    def restore(self, pod: PodInfo) -> None:
        self._cluster.put_pod(pod)
        self._record_change(pod, 0)

    def assume(self, pod: PodInfo) -> None:
        """Put a pod on its nominated node."""
        self._save_original(pod)
        assumed = replace(pod, node=pod.nominated_node, nominated_node="")
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
