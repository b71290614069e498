"""The product's verdict on a pod, from objects as the API server shows them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.accounting.fit.clusters import cluster_of, pod_of
from webhook.accounting.cluster import Cluster
from webhook.accounting.cluster.storage import Storage, StorageObject
from webhook.accounting.fit.verdict import verdict
from webhook.objects.cluster import Namespace
from webhook.objects.scheduling import DisruptionBudget, PriorityClass
from webhook.objects.storage import (
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)

Json = Mapping[str, Any]

_STORED: Mapping[str, type[StorageObject]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriver,
    "CSIStorageCapacity": StorageCapacity,
    "VolumeAttachment": VolumeAttachment,
}


@dataclass(frozen=True, slots=True)
class Decided:
    """`nodes` of which one is chosen, `nominated` of which one is promised, and the sentence."""

    nodes: frozenset[str]
    nominated: frozenset[str]
    message: str


def decided(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], pod: Json) -> Decided:
    """What the product says of a new pod, given nodes, the other pods and all else."""
    said = verdict(pod_of(pod), whole(nodes, pods, others))
    return Decided(frozenset(said.nodes), frozenset(said.nominated), said.sentence)


def whole(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json]) -> Cluster:
    """A cluster of which everything is known."""
    cluster = cluster_of(nodes, pods)
    cluster.storage = Storage()
    for each in others:
        _put(cluster, each)
    return cluster


def _put(cluster: Cluster, written: Json) -> None:
    kind, body = written.get("kind", ""), msgspec.json.encode(written)
    if kind in _STORED and cluster.storage is not None:
        cluster.storage.put(msgspec.json.decode(body, type=_STORED[kind]))
    elif kind in _OTHERS:
        _OTHERS[kind](cluster, body)


def _put_namespace(cluster: Cluster, body: bytes) -> None:
    meta = msgspec.json.decode(body, type=Namespace).metadata
    if meta is not None:
        cluster.namespaces[meta.name or ""] = meta.labels or {}


def _put_priority(cluster: Cluster, body: bytes) -> None:
    found = msgspec.json.decode(body, type=PriorityClass)
    cluster.priorities[(found.metadata.name if found.metadata else None) or ""] = found


def _put_budget(cluster: Cluster, body: bytes) -> None:
    cluster.budgets.append(msgspec.json.decode(body, type=DisruptionBudget))


_OTHERS: Mapping[str, Callable[[Cluster, bytes], None]] = {
    "Namespace": _put_namespace,
    "PriorityClass": _put_priority,
    "PodDisruptionBudget": _put_budget,
}
