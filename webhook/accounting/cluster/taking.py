"""Objects as they are listed, taken into a cluster by their kind."""

from collections.abc import Callable, Mapping

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pods import placed
from webhook.accounting.cluster.storage import Storage, StorageObject
from webhook.objects.cluster import Namespace
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import DeviceClass, DisruptionBudget, PlacedPod, PlacingNode, PriorityClass
from webhook.objects.storage import (
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)

Content = bytes | msgspec.Raw
"""The JSON of one object."""

STORAGE: Mapping[str, type[StorageObject]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriver,
    "CSIStorageCapacity": StorageCapacity,
    "VolumeAttachment": VolumeAttachment,
}
"""The kinds that say something about volumes."""


def take(cluster: Cluster, kind: str, content: Content) -> bool:
    """Keep an object in a cluster; False, and nothing is done, for a kind that says nothing about where pods run.

    With the first object about volumes all that there is of them counts as known.

    Raises:
        QuantityError: a quantity that it asks for, or has, is none.
        ValueError: it is not of its kind.
    """
    keep = _KEEPING.get(kind)
    if keep is None:
        return False
    keep(cluster, content)
    return True


def _storing(kind: type[StorageObject]) -> Callable[[Cluster, Content], None]:
    decoder = msgspec.json.Decoder(kind)

    def keep(cluster: Cluster, content: Content) -> None:
        if cluster.storage is None:
            cluster.storage = Storage()
        cluster.storage.put(decoder.decode(content))

    return keep


_NODE, _POD = msgspec.json.Decoder(PlacingNode), msgspec.json.Decoder(PlacedPod)
_NAMESPACE = msgspec.json.Decoder(Namespace)
_DEVICES = msgspec.json.Decoder(DeviceClass)
_PRIORITY, _BUDGET = msgspec.json.Decoder(PriorityClass), msgspec.json.Decoder(DisruptionBudget)


def _keep_pod(cluster: Cluster, content: Content) -> None:
    found = placed(_POD.decode(content), cluster.shapes)
    if found is not None:
        cluster.put_pod(found)


def _keep_namespace(cluster: Cluster, content: Content) -> None:
    meta = _NAMESPACE.decode(content).metadata or ObjectMeta()
    cluster.namespaces[meta.name or ""] = meta.labels or {}


def _keep_priority(cluster: Cluster, content: Content) -> None:
    found = _PRIORITY.decode(content)
    cluster.priorities[(found.metadata.name if found.metadata else None) or ""] = found


_KEEPING: Mapping[str, Callable[[Cluster, Content], None]] = {
    "Node": lambda cluster, content: cluster.put_node(_NODE.decode(content)),
    "Pod": _keep_pod,
    "Namespace": _keep_namespace,
    "PriorityClass": _keep_priority,
    "DeviceClass": lambda cluster, content: cluster.devices.put(_DEVICES.decode(content)),
    "PodDisruptionBudget": lambda cluster, content: cluster.budgets.append(_BUDGET.decode(content)),
    **{kind: _storing(decoded) for kind, decoded in STORAGE.items()},
}
