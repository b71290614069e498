"""Claims, volumes and what makes them, as they are looked up."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import (
    ClaimSpec,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeSpec,
)

StorageObject = (
    PersistentVolumeClaim | PersistentVolume | StorageClass | CsiNode | CsiDriver | StorageCapacity | VolumeAttachment
)
"""Everything that says something about volumes."""

_CLASS = "volume.beta.kubernetes.io/storage-class"
_NOTHING: Mapping[str, VolumeAttachment] = MappingProxyType({})
_NO_VOLUMES: Mapping[str, PersistentVolume] = MappingProxyType({})


class Storage:
    """All claims, volumes, storage classes and CSI objects of one cluster, changed by one object at a time.

    `limits` has every node with a CSINode, and how many volumes each driver attaches there that says so.
    """

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, Mapping[str, int]] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self._capacities: dict[tuple[str, str], StorageCapacity] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._of_class: dict[str, dict[str, PersistentVolume]] = {}
        self._attached: dict[str, dict[str, VolumeAttachment]] = {}

    def put(self, thing: StorageObject) -> None:
        """Keep an object as it is now."""
        self.remove(thing)
        meta = thing.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match thing:
            case PersistentVolumeClaim():
                self.claims[namespace, name] = thing
            case PersistentVolume():
                self.volumes[name] = thing
                self._of_class.setdefault(class_of_volume(thing), {})[name] = thing
            case StorageClass():
                self.classes[name] = thing
            case CsiNode():
                self.limits[name] = _limits(thing)
            case CsiDriver():
                self.drivers[name] = thing
            case StorageCapacity():
                self._capacities[namespace, name] = thing
            case VolumeAttachment():
                self._attachments[name] = thing
                self._attached.setdefault(_node_of(thing), {})[name] = thing

    def remove(self, thing: StorageObject) -> None:
        """Keep an object no longer, of which only kind and name are looked at."""
        meta = thing.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match thing:
            case PersistentVolumeClaim():
                self.claims.pop((namespace, name), None)
            case PersistentVolume():
                self._remove_volume(name)
            case StorageClass():
                self.classes.pop(name, None)
            case CsiNode():
                self.limits.pop(name, None)
            case CsiDriver():
                self.drivers.pop(name, None)
            case StorageCapacity():
                self._capacities.pop((namespace, name), None)
            case VolumeAttachment():
                self._remove_attachment(name)

    def of_class(self, name: str) -> Mapping[str, PersistentVolume]:
        """The volumes of a storage class, by name."""
        return self._of_class.get(name, _NO_VOLUMES)

    def capacities(self) -> Iterable[StorageCapacity]:
        """What classes have left."""
        return self._capacities.values()

    def attachments(self, node: str) -> Iterable[VolumeAttachment]:
        """What is attached, or to be attached, to a node."""
        return self._attached.get(node, _NOTHING).values()

    def _remove_volume(self, name: str) -> None:
        gone = self.volumes.pop(name, None)
        if gone is not None:
            self._of_class[class_of_volume(gone)].pop(name)

    def _remove_attachment(self, name: str) -> None:
        gone = self._attachments.pop(name, None)
        if gone is not None:
            self._attached[_node_of(gone)].pop(name)


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for, empty for none.

    (GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go, v1.36, as `class_of_volume`.)
    """
    meta, spec = claim.metadata or ObjectMeta(), claim.spec or ClaimSpec()
    return (meta.annotations or {}).get(_CLASS, spec.storage_class_name or "")


def class_of_volume(volume: PersistentVolume) -> str:
    """The storage class that a volume is of, empty for none."""
    meta, spec = volume.metadata or ObjectMeta(), volume.spec or VolumeSpec()
    return (meta.annotations or {}).get(_CLASS, spec.storage_class_name or "")


def _limits(node: CsiNode) -> Mapping[str, int]:
    """GetVolumeLimits in plugins/nodevolumelimits/csi.go, v1.36."""
    drivers = (node.spec.drivers if node.spec else None) or ()
    counts = {each.name: each.allocatable.count for each in drivers if each.allocatable}
    return {name: count for name, count in counts.items() if count is not None}


def _node_of(attachment: VolumeAttachment) -> str:
    return attachment.spec.node_name if attachment.spec else ""
