"""The cluster as a scheduler knows it, kept current by the watches of its nodes, pods, namespaces and device classes.

Of a pod what matters on a node is read together with what caps count: pods are listed and watched once.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from msgspec.structs import replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo, create_pod_info
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.scheduling.complexity import estimate_anti_affinity
from webhook.objects.scheduling import SchedulingPod
from webhook.state.watch.devices import DeviceView
from webhook.state.watch.events import Changed, Deleted, Event, Replaced
from webhook.state.watch.namespaces import NamespaceView
from webhook.state.watch.nodes import NodeView
from webhook.state.watch.pods import PodRow
from webhook.state.watch.view import PodView
from webhook.state.watch.wire import Reading

T = TypeVar("T")

_MOST_WORDS = 5000  # about a hundred terms; who keeps more away than that is taken to keep nobody away
_MOST_LABELS = 1000  # who has more is taken to have none
_TOGETHER = 200  # pods put in at a time: who asks meanwhile need not wait for all


class PlacedRow(PodRow, frozen=True, gc=False):
    """A pod, and how it stands on its node; None when it is on none, and none is promised to it."""

    placed: PodInfo | None = None


class ClusterView:
    """One cluster, to be looked at by one thread at a time. It has pods once these were listed.

    `devices` are its device classes, as far as somebody tells of them.
    """

    def __init__(self, nodes: NodeView, namespaces: NamespaceView) -> None:
        self._lock = Lock()
        self._cluster = Cluster()
        self._nodes, self._namespaces, self.devices = nodes, namespaces, DeviceView()
        self._revision: int | None = None
        self._is_whole = False
        nodes.listen(self._nodes_changed)
        namespaces.listen(self._namespaces_changed)
        self.devices.listen(self._devices_changed)

    def reading(self, pods: PodView) -> Reading[SchedulingPod, PodRow]:
        """How pods are read: as this view of them does, and as they stand on nodes."""
        return Reading(
            pods.reading.name, pods.reading.path, SchedulingPod, lambda pod: self._row(pods.digest(pod), pod)
        )

    @contextmanager
    def held(self, patience: float) -> Iterator[Cluster | None]:
        """The cluster, which nobody changes meanwhile; None where it could not be had for so many seconds.

        Whoever supposes something in it puts it back before he leaves.
        """
        if not self._lock.acquire(timeout=patience):
            yield None
            return
        try:
            yield self._cluster
        finally:
            self._lock.release()

    @property
    def has_pods(self) -> bool:
        """Whether every pod is in it; asked for while it is held."""
        return self._is_whole

    def apply(self, event: Event[PodRow]) -> None:
        """Take up what was told of pods. What was told before is passed over."""
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
                self._cluster.remove_pod(event.item.uid)

    def _row(self, row: PodRow, pod: SchedulingPod) -> PodRow:
        return PlacedRow(
            row.uid,
            row.namespace,
            row.name,
            row.node,
            row.revision,
            row.has_ended,
            row.is_terminating,
            row.shape,
            self._placed(pod),
        )

    def _placed(self, pod: SchedulingPod) -> PodInfo | None:
        pod = _within_reason(pod)
        with self._lock:
            try:
                return create_pod_info(pod, self._cluster.groups)
            except QuantityError:
                return None  # no API server stores such a pod

    def _replace(self, event: Replaced[PodRow]) -> None:
        """Take up a whole list, bit by bit; until it is in, there are no pods to go by."""
        there = {row.uid for row in event.items}
        with self._lock:
            self._is_whole = False
            gone = [pod.uid for pod in self._cluster.list_pods() if pod.uid not in there]
        for uids in _in_parts(gone):
            with self._lock:
                for uid in uids:
                    self._cluster.remove_pod(uid)
        for rows in _in_parts(event.items):
            with self._lock:
                for row in rows:
                    self._put(row)
        with self._lock:
            self._is_whole, self._revision = True, event.revision

    def _put(self, row: PodRow) -> None:
        pod = row.placed if isinstance(row, PlacedRow) else None
        if pod is None:
            self._cluster.remove_pod(row.uid)
        elif self._cluster.find_pod(row.uid) != pod:
            self._cluster.put_pod(pod)

    def _nodes_changed(self, names: Iterable[str]) -> None:
        for name in names:
            row = self._nodes.row(name)
            with self._lock:
                if row is None:
                    self._cluster.remove_node(name)
                    continue
                try:
                    self._cluster.put_node(row.node())
                except QuantityError:
                    self._cluster.remove_node(name)  # Kubernetes checks no quantity of a node's status

    def _devices_changed(self, names: Iterable[str]) -> None:
        for name in names:
            row = self.devices.row(name)
            with self._lock:
                if row is None:
                    self._cluster.device_classes.remove(name)
                else:
                    self._cluster.device_classes.put(row.device_class())

    def _namespaces_changed(self, names: Iterable[str]) -> None:
        for name in names:
            row = self._namespaces.row(name)
            with self._lock:
                if row is None:
                    self._cluster.namespaces.pop(name, None)
                else:
                    self._cluster.namespaces[name] = row.labels


def _within_reason(pod: SchedulingPod) -> SchedulingPod:
    """The pod without what would have to be remembered, and held against every other pod, by the thousand."""
    meta, spec = pod.metadata, pod.spec
    if spec is not None and estimate_anti_affinity(pod) > _MOST_WORDS:
        spec = replace(spec, affinity=None)
    if meta is not None and len(meta.labels or ()) > _MOST_LABELS:
        meta = replace(meta, labels=None)
    return replace(pod, metadata=meta, spec=spec) if meta is not pod.metadata or spec is not pod.spec else pod


def _in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))
