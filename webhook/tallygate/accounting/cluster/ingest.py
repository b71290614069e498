"""Ingestion of listed objects, given as JSON, into a cluster."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.pod_info import create_pod_info
from tallygate.accounting.cluster.storage_index import StorageIndex, StorageObject
from tallygate.accounting.pod_defaults import LimitRangeIndex
from tallygate.objects import storage
from tallygate.objects.core import LimitRange, Namespace
from tallygate.objects.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import (
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    RuntimeClass,
    SchedulingNode,
    SchedulingPod,
)

ObjectJson = bytes | msgspec.Raw
"""The JSON of one object."""

STORAGE_TYPES: Mapping[str, type[StorageObject]] = {
    "PersistentVolumeClaim": storage.PersistentVolumeClaim,
    "PersistentVolume": storage.PersistentVolume,
    "StorageClass": storage.StorageClass,
    "CSINode": storage.CsiNode,
    "CSIDriver": storage.CsiDriver,
    "CSIStorageCapacity": storage.CsiStorageCapacity,
    "VolumeAttachment": storage.VolumeAttachment,
}
"""The types of the objects about volumes, by kind."""


def ingest(cluster: Cluster, kind: str, content: ObjectJson) -> bool:
    """Put an object into a cluster as `put_object`, from its JSON.

    Raises:
        QuantityError: if a requested or allocatable quantity is invalid.
        SliceError: if a slice of devices is invalid.
        ValueError: if the content does not fit its kind.
    """
    decoder = _DECODERS.get(kind)
    return False if decoder is None else put_object(cluster, kind, decoder.decode(content))


def put_object(cluster: Cluster, kind: str, item: Any) -> bool:
    """Put an object into a cluster; return False, and do nothing, for a kind that scheduling does not use.

    The first object about volumes creates `cluster.storage`: from then on the objects about volumes count as complete.
    The first slice, claim or template of claims creates `cluster.devices`; see `settle_devices`.

    Raises:
        QuantityError: if a requested or allocatable quantity is invalid.
        SliceError: if a slice of devices is invalid.
    """
    handler = _HANDLERS.get(kind)
    if handler is None:
        return False
    handler.put(cluster, item)
    return True


def settle_devices(cluster: Cluster, problems: Sequence[str]) -> None:
    """Make the devices of a cluster known once all objects about them are in it; with a problem they are unknown."""
    cluster.devices_problem = "; ".join(problems)
    if problems:
        cluster.devices = None
    else:
        _get_devices(cluster)


def _put_storage_object(cluster: Cluster, item: StorageObject) -> None:
    if cluster.storage is None:
        cluster.storage = StorageIndex()
    cluster.storage.put(item)


def _put_node(cluster: Cluster, node: SchedulingNode) -> None:
    cluster.put_node(node)
    cluster.pools.put_node(node)


def _put_pod(cluster: Cluster, pod: SchedulingPod) -> None:
    pod_info = create_pod_info(pod, cluster.groups)
    if pod_info is not None:
        cluster.put_pod(pod_info)
    cluster.pod_groups.put_pod(pod)


def _put_namespace(cluster: Cluster, namespace: Namespace) -> None:
    meta = namespace.metadata or ObjectMeta()
    cluster.namespaces[meta.name or ""] = meta.labels or {}


def _get_devices(cluster: Cluster) -> DeviceIndex:
    if cluster.devices is None:
        cluster.devices = DeviceIndex()
    return cluster.devices


class _Mark(msgspec.Struct):
    """A list without items: the objects of its kind are known."""


def _put_priority_class(cluster: Cluster, priority_class: PriorityClass) -> None:
    cluster.priority_classes[_get_name(priority_class.metadata)] = priority_class


def _put_limit_range(cluster: Cluster, limit_range: LimitRange) -> None:
    cluster.limit_ranges = cluster.limit_ranges or LimitRangeIndex()
    cluster.limit_ranges.put(limit_range)


def _put_limit_ranges(cluster: Cluster, _: _Mark) -> None:
    cluster.limit_ranges = cluster.limit_ranges or LimitRangeIndex()


def _put_runtime_class(cluster: Cluster, runtime_class: RuntimeClass) -> None:
    name = _get_name(runtime_class.metadata)
    cluster.runtime_classes = {**(cluster.runtime_classes or {}), name: runtime_class}


def _put_runtime_classes(cluster: Cluster, _: _Mark) -> None:
    cluster.runtime_classes = cluster.runtime_classes or {}


def _get_name(metadata: ObjectMeta | None) -> str:
    return (metadata.name if metadata is not None else None) or ""


def _put_device_object(
    cluster: Cluster, item: ResourceSlice | ResourceClaim | ResourceClaimTemplate | DeviceTaintRule
) -> None:
    _get_devices(cluster).put(item)
    if isinstance(item, ResourceClaim):
        cluster.pod_groups.put_claim(item)


class _Handler(NamedTuple):
    """The functions that decode the objects of a kind, and put them into a cluster."""

    type: type[msgspec.Struct]
    put: Callable[[Cluster, Any], None]


_HANDLERS: Final[Mapping[str, _Handler]] = {
    "Node": _Handler(SchedulingNode, _put_node),
    "NodePool": _Handler(KarpenterNodePool, lambda cluster, pool: cluster.pools.put_node_pool(pool)),
    "NodeClaim": _Handler(NodeClaim, lambda cluster, claim: cluster.pools.put_node_claim(claim)),
    "Pod": _Handler(SchedulingPod, _put_pod),
    "Namespace": _Handler(Namespace, _put_namespace),
    "PriorityClass": _Handler(PriorityClass, _put_priority_class),
    "LimitRange": _Handler(LimitRange, _put_limit_range),
    "LimitRangeList": _Handler(_Mark, _put_limit_ranges),
    "RuntimeClass": _Handler(RuntimeClass, _put_runtime_class),
    "RuntimeClassList": _Handler(_Mark, _put_runtime_classes),
    "DeviceClass": _Handler(DeviceClass, lambda cluster, device_class: cluster.device_classes.put(device_class)),
    "ResourceSlice": _Handler(ResourceSlice, _put_device_object),
    "ResourceClaim": _Handler(ResourceClaim, _put_device_object),
    "ResourceClaimTemplate": _Handler(ResourceClaimTemplate, _put_device_object),
    "DeviceTaintRule": _Handler(DeviceTaintRule, _put_device_object),
    "PodDisruptionBudget": _Handler(PodDisruptionBudget, lambda cluster, budget: cluster.budgets.append(budget)),
    "PodGroup": _Handler(PodGroup, lambda cluster, group: cluster.pod_groups.put(group)),
    **{kind: _Handler(object_type, _put_storage_object) for kind, object_type in STORAGE_TYPES.items()},
}
_DECODERS: Final = {kind: msgspec.json.Decoder(handler.type) for kind, handler in _HANDLERS.items()}
COLUMN_TYPES: Final[Mapping[str, type[msgspec.Struct]]] = {kind: handler.type for kind, handler in _HANDLERS.items()}
"""The types of the objects that scheduling uses, by kind."""
