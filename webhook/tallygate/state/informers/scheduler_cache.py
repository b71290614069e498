"""A cluster in the representation of a scheduler, updated by watches of nodes and their pools, pods, and others.

One codec decodes the fields of a pod for caps and for nodes, so pods are listed and watched once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from msgspec.structs import replace

from tallygate.accounting.charge import has_ended
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_groups import find_group_key
from tallygate.accounting.cluster.pod_info import PodInfo, create_pod_info
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.complexity import estimate_anti_affinity
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, ResourceCodec, WatchEvent
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod, SchedulingPodSpec
from tallygate.objects.timed_pods import TimedPod
from tallygate.state.informers import named_stores
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.pod_templates import PodTemplates, StoredTemplate

T = TypeVar("T")
R = TypeVar("R", bound=named_stores.ComparableRecord)

_MAX_ANTI_AFFINITY_COMPLEXITY = 5000  # about 100 terms; the affinity of a pod with more is dropped
_MAX_LABELS = 1000  # the labels of a pod with more are dropped
_BATCH_SIZE = 200  # pods per acquisition of the lock: other threads wait for one batch only


class SchedulingPodRecord(PodRecord, frozen=True, gc=False):
    """A pod and its `pod_info` for its node; None if it has ended, or has no node and no nominated node.

    `stored_template` is what a state that keeps templates has of the pod. `group_pod` is what a state with
    PodGroups has of a pod that names one.
    """

    pod_info: PodInfo | None = None
    stored_template: StoredTemplate | None = None
    group_pod: SchedulingPod | None = None


class SchedulerCache:
    """One cluster for one thread at a time, updated by these stores. It contains pods after their first list."""

    def __init__(
        self,
        node_store: named_stores.NodeStore,
        namespace_store: named_stores.NamespaceStore,
        device_class_store: named_stores.DeviceClassStore,
        node_pool_store: named_stores.NodePoolStore,
        node_claim_store: named_stores.NodeClaimStore,
    ) -> None:
        self._lock = Lock()
        self._cluster = Cluster()
        self._node_store, pools, classes = node_store, self._cluster.pools, self._cluster.device_classes
        self._revision: int | None = None
        self._is_complete = False
        node_store.add_listener(self._update_nodes)
        self._follow(namespace_store, self._put_namespace, lambda name: self._cluster.namespaces.pop(name, None))
        self._follow(device_class_store, lambda record: classes.put(record.content), classes.remove)
        self._follow(node_pool_store, lambda record: pools.put_node_pool(record.content), pools.remove_node_pool)
        self._follow(node_claim_store, lambda record: pools.put_node_claim(record.content), pools.remove_node_claim)

    @property
    def version(self) -> KubernetesVersion:
        """The version of the scheduler whose rules apply."""
        return self._cluster.version

    def set_version(self, git_version: str) -> None:
        """Select the rules of the scheduler of this version. Call it before any pod is put in."""
        self._cluster.set_version(git_version)

    def create_pod_codec(
        self,
        pod_store: PodStore,
        templates: PodTemplates | None = None,
        *,
        has_times: bool = False,
        has_groups: bool = False,
    ) -> ResourceCodec[SchedulingPod, PodRecord]:
        """Create the codec of pods, with the record of `pod_store`, the pod info for nodes, and that of `templates`.

        The records have the times of pods only with `has_times`, and the pods of PodGroups only with `has_groups`.
        """
        return ResourceCodec(
            pod_store.codec.name,
            pod_store.codec.path,
            TimedPod if has_times else SchedulingPod,
            lambda pod: self._create_record(pod_store.codec.create_record(pod), pod, templates, has_groups=has_groups),
        )

    @contextmanager
    def acquire(self, timeout: float) -> Iterator[Cluster | None]:
        """Yield the locked cluster, or None if the lock was not free within `timeout` seconds.

        A caller that changes the cluster restores it before the end of the context.
        """
        if not self._lock.acquire(timeout=timeout):
            yield None
            return
        try:
            yield self._cluster
        finally:
            self._lock.release()

    @property
    def has_pods(self) -> bool:
        """Whether the cluster contains all pods; callers read this inside `acquire`."""
        return self._is_complete

    def apply(self, event: WatchEvent[PodRecord]) -> None:
        """Apply a pod event; ignore an event that is not newer than the last one."""
        if isinstance(event, Replaced):
            self._replace(event)
            return
        with self._lock:
            if self._revision is None or event.revision <= self._revision:
                return
            self._revision = event.revision
            if isinstance(event, Changed):
                self._put(event.item)
            elif isinstance(event, Deleted):
                self._remove(event.item.uid)

    def _create_record(
        self, record: PodRecord, pod: SchedulingPod, templates: PodTemplates | None, *, has_groups: bool
    ) -> PodRecord:
        pod = _drop_oversized_fields(pod)
        pod_info = self._create_pod_info(pod)
        uid, name = (record.uid, record.name) if pod_info is None else (pod_info.uid, pod_info.name)
        return SchedulingPodRecord(
            uid,
            record.namespace,
            name,
            record.node,
            record.revision,
            record.has_ended,
            record.is_terminating,
            record.group,
            record.claim_name,
            record.created,
            record.started,
            record.ended,
            pod_info,
            templates.create(pod) if templates is not None else None,
            _reduce_group_pod(pod) if has_groups else None,
        )

    def _create_pod_info(self, pod: SchedulingPod) -> PodInfo | None:
        """Return the pod info; the stored one if it is equal, so that a later list does not take its memory twice."""
        with self._lock:
            try:
                pod_info = create_pod_info(pod, self._cluster.groups)
            except QuantityError:
                return None  # no API server stores such a pod
            stored = self._cluster.find_pod(pod_info.uid) if pod_info is not None else None
            return stored if stored == pod_info else pod_info

    def _replace(self, event: Replaced[PodRecord]) -> None:
        """Replace all pods in batches; `has_pods` is false until the end."""
        listed_uids = {record.uid for record in event.items}
        with self._lock:
            self._is_complete = False
            known_uids = {*(pod.uid for pod in self._cluster.list_pods()), *self._cluster.pod_groups.list_pod_uids()}
        for uids in _split_into_batches([*(known_uids - listed_uids)]):
            with self._lock:
                for uid in uids:
                    self._remove(uid)
        for records in _split_into_batches(event.items):
            with self._lock:
                for record in records:
                    self._put(record)
        with self._lock:
            self._is_complete, self._revision = True, event.revision

    def _remove(self, uid: str) -> None:
        self._cluster.remove_pod(uid)
        self._cluster.pod_groups.remove_pod(uid)

    def _put(self, record: PodRecord) -> None:
        pod = record.pod_info if isinstance(record, SchedulingPodRecord) else None
        group_pod = record.group_pod if isinstance(record, SchedulingPodRecord) else None
        if group_pod is not None:
            self._cluster.pod_groups.put_pod(group_pod)
        else:
            self._cluster.pod_groups.remove_pod(record.uid)
        if pod is None:
            self._cluster.remove_pod(record.uid)
        elif self._cluster.find_pod(record.uid) != pod:
            self._cluster.put_pod(pod)

    def _update_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            node = self._node_store.find_node(name)
            with self._lock:
                try:
                    if node is not None:
                        self._cluster.put_node(node)
                        self._cluster.pools.put_node(node)
                        continue
                except QuantityError:
                    pass  # Kubernetes checks no quantity of a node's status
                self._cluster.remove_node(name)
                self._cluster.pools.remove_node(name)

    def _follow(
        self, store: named_stores.ObjectStore[R], put: Callable[[R], object], remove: Callable[[str], object]
    ) -> None:
        """Put each changed record of a store into the cluster, or remove what it has no more."""

        def update(names: Iterable[str]) -> None:
            for name in names:
                record = store.find(name)
                with self._lock:
                    if record is None:
                        remove(name)
                    else:
                        put(record)

        store.add_listener(update)

    def _put_namespace(self, record: named_stores.NamespaceRecord) -> None:
        self._cluster.namespaces[record.name] = record.labels


def _reduce_group_pod(pod: SchedulingPod) -> SchedulingPod | None:
    """Return a pod that names a PodGroup, one with a node without all that its group does not share; else None."""
    spec, meta = pod.spec, pod.metadata or ObjectMeta()
    if spec is None or find_group_key(pod) is None or has_ended(pod):
        return None
    if not spec.node_name:
        return pod
    return SchedulingPod(
        metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        spec=SchedulingPodSpec(
            node_name=spec.node_name,
            priority=spec.priority,
            priority_class_name=spec.priority_class_name,
            preemption_policy=spec.preemption_policy,
            scheduler_name=spec.scheduler_name,
            scheduling_group=spec.scheduling_group,
        ),
    )


def _drop_oversized_fields(pod: SchedulingPod) -> SchedulingPod:
    """Return the pod without affinity or labels above the limits, which every other pod would be compared with."""
    meta, spec = pod.metadata, pod.spec
    if spec is not None and estimate_anti_affinity(pod) > _MAX_ANTI_AFFINITY_COMPLEXITY:
        spec = replace(spec, affinity=None)
    if meta is not None and len(meta.labels or ()) > _MAX_LABELS:
        meta = replace(meta, labels=None)
    return replace(pod, metadata=meta, spec=spec) if meta is not pod.metadata or spec is not pod.spec else pod


def _split_into_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH_SIZE] for start in range(0, len(items), _BATCH_SIZE))
