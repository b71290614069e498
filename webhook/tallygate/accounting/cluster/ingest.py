"""Ingestion of listed objects, given as JSON, into a cluster."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.pod_info import create_pod_info
from tallygate.accounting.cluster.storage_index import StorageIndex, StorageObject
from tallygate.accounting.pod_defaults import LimitRangeIndex
from tallygate.objects.core import LimitRange, Namespace
from tallygate.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import (
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    SchedulingNode,
    SchedulingPod,
)
from tallygate.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

VERSION_KIND = "ClusterVersion"
"""The kind of an item with the version of a cluster under `gitVersion`; only tallygate writes it."""

ObjectJson = bytes | msgspec.Raw
"""The JSON of one object."""

STORAGE_TYPES: Mapping[str, type[StorageObject]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriver,
    "CSIStorageCapacity": CsiStorageCapacity,
    "VolumeAttachment": VolumeAttachment,
}
"""The types of the objects about volumes, by kind."""


def ingest(cluster: Cluster, kind: str, content: ObjectJson) -> bool:
    """Put an object into a cluster; return False, and do nothing, for a kind that scheduling does not use.

    The first object about volumes creates `cluster.storage`: from then on the objects about volumes count as complete.
    The first slice, claim or template of claims creates `cluster.devices`; see `settle_devices`.

    Raises:
        QuantityError: if a requested or allocatable quantity is invalid.
        SliceError: if a slice of devices is invalid.
        ValueError: if the content does not fit its kind.
    """
    put_object = _HANDLERS.get(kind)
    if put_object is None:
        return False
    put_object(cluster, content)
    return True


def settle_devices(cluster: Cluster, problems: Sequence[str]) -> None:
    """Make the devices of a cluster known once all objects about them are in it; with a problem they are unknown."""
    cluster.devices_problem = "; ".join(problems)
    if problems:
        cluster.devices = None
    else:
        _get_devices(cluster)


def _create_storage_handler(object_type: type[StorageObject]) -> Callable[[Cluster, ObjectJson], None]:
    decoder = msgspec.json.Decoder(object_type)

    def put_storage_object(cluster: Cluster, content: ObjectJson) -> None:
        if cluster.storage is None:
            cluster.storage = StorageIndex()
        cluster.storage.put(decoder.decode(content))

    return put_storage_object


_NODE_DECODER, _POD_DECODER = msgspec.json.Decoder(SchedulingNode), msgspec.json.Decoder(SchedulingPod)
_NODE_POOL_DECODER, _NODE_CLAIM_DECODER = msgspec.json.Decoder(KarpenterNodePool), msgspec.json.Decoder(NodeClaim)
_NAMESPACE_DECODER = msgspec.json.Decoder(Namespace)
_DEVICE_CLASS_DECODER = msgspec.json.Decoder(DeviceClass)
_PRIORITY_CLASS_DECODER, _BUDGET_DECODER = (
    msgspec.json.Decoder(PriorityClass),
    msgspec.json.Decoder(PodDisruptionBudget),
)


def _put_node(cluster: Cluster, content: ObjectJson) -> None:
    node = _NODE_DECODER.decode(content)
    cluster.put_node(node)
    cluster.pools.put_node(node)


def _put_pod(cluster: Cluster, content: ObjectJson) -> None:
    pod = create_pod_info(_POD_DECODER.decode(content), cluster.groups)
    if pod is not None:
        cluster.put_pod(pod)


def _put_namespace(cluster: Cluster, content: ObjectJson) -> None:
    meta = _NAMESPACE_DECODER.decode(content).metadata or ObjectMeta()
    cluster.namespaces[meta.name or ""] = meta.labels or {}


_SLICE_DECODER, _CLAIM_DECODER = msgspec.json.Decoder(ResourceSlice), msgspec.json.Decoder(ResourceClaim)
_TEMPLATE_DECODER = msgspec.json.Decoder(ResourceClaimTemplate)
_RUNTIME_CLASS_DECODER = msgspec.json.Decoder(RuntimeClass)
_LIMIT_RANGE_DECODER = msgspec.json.Decoder(LimitRange)
_TAINT_RULE_DECODER = msgspec.json.Decoder(DeviceTaintRule)


def _get_devices(cluster: Cluster) -> DeviceIndex:
    if cluster.devices is None:
        cluster.devices = DeviceIndex()
    return cluster.devices


class _ClusterVersion(msgspec.Struct, rename="camel"):
    git_version: str


_VERSION_DECODER = msgspec.json.Decoder(_ClusterVersion)


def _put_priority_class(cluster: Cluster, content: ObjectJson) -> None:
    priority_class = _PRIORITY_CLASS_DECODER.decode(content)
    cluster.priority_classes[(priority_class.metadata.name if priority_class.metadata else None) or ""] = priority_class


def _put_limit_range(cluster: Cluster, content: ObjectJson) -> None:
    _put_limit_ranges(cluster, b"")
    if cluster.limit_ranges is not None:
        cluster.limit_ranges.put(_LIMIT_RANGE_DECODER.decode(content))


def _put_limit_ranges(cluster: Cluster, _: ObjectJson) -> None:
    """Make the LimitRanges of a cluster known."""
    if cluster.limit_ranges is None:
        cluster.limit_ranges = LimitRangeIndex()


def _put_runtime_class(cluster: Cluster, content: ObjectJson) -> None:
    runtime_class = _RUNTIME_CLASS_DECODER.decode(content)
    name = (runtime_class.metadata.name if runtime_class.metadata else None) or ""
    cluster.runtime_classes = {**(cluster.runtime_classes or {}), name: runtime_class}


def _put_runtime_classes(cluster: Cluster, _: ObjectJson) -> None:
    """Make the RuntimeClasses of a cluster known."""
    cluster.runtime_classes = cluster.runtime_classes or {}


_HANDLERS: Mapping[str, Callable[[Cluster, ObjectJson], None]] = {
    "Node": _put_node,
    "NodePool": lambda cluster, content: cluster.pools.put_node_pool(_NODE_POOL_DECODER.decode(content)),
    "NodeClaim": lambda cluster, content: cluster.pools.put_node_claim(_NODE_CLAIM_DECODER.decode(content)),
    "Pod": _put_pod,
    "Namespace": _put_namespace,
    "PriorityClass": _put_priority_class,
    "LimitRange": _put_limit_range,
    "LimitRangeList": _put_limit_ranges,
    "RuntimeClass": _put_runtime_class,
    "RuntimeClassList": _put_runtime_classes,
    VERSION_KIND: lambda cluster, content: cluster.set_version(_VERSION_DECODER.decode(content).git_version),
    "DeviceClass": lambda cluster, content: cluster.device_classes.put(_DEVICE_CLASS_DECODER.decode(content)),
    "ResourceSlice": lambda cluster, content: _get_devices(cluster).put(_SLICE_DECODER.decode(content)),
    "ResourceClaim": lambda cluster, content: _get_devices(cluster).put(_CLAIM_DECODER.decode(content)),
    "ResourceClaimTemplate": lambda cluster, content: _get_devices(cluster).put(_TEMPLATE_DECODER.decode(content)),
    "DeviceTaintRule": lambda cluster, content: _get_devices(cluster).put(_TAINT_RULE_DECODER.decode(content)),
    "PodDisruptionBudget": lambda cluster, content: cluster.budgets.append(_BUDGET_DECODER.decode(content)),
    **{kind: _create_storage_handler(decoded) for kind, decoded in STORAGE_TYPES.items()},
}
