"""Claims, volumes, storage classes and CSI objects of a cluster, indexed for lookup."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tallygate.objects import storage
from tallygate.objects.meta import ObjectMeta

StorageObject = (
    storage.PersistentVolumeClaim
    | storage.PersistentVolume
    | storage.StorageClass
    | storage.CsiNode
    | storage.CsiDriver
    | storage.CsiStorageCapacity
    | storage.VolumeAttachment
)
"""Every type of object about volumes."""

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_NO_ATTACHMENTS: Mapping[str, storage.VolumeAttachment] = MappingProxyType({})
_NO_VOLUMES: Mapping[str, storage.PersistentVolume] = MappingProxyType({})


class StorageIndex:
    """All claims, volumes, storage classes and CSI objects of one cluster, changed by one object at a time.

    `attach_limits` has every node with a CSINode, and for each driver with a limit the number of volumes that it
    attaches there. `installed_drivers` has the names of all drivers of these nodes.
    """

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], storage.PersistentVolumeClaim] = {}
        self.volumes: dict[str, storage.PersistentVolume] = {}
        self.classes: dict[str, storage.StorageClass] = {}
        self.attach_limits: dict[str, Mapping[str, int]] = {}
        self.installed_drivers: dict[str, frozenset[str]] = {}
        self.drivers: dict[str, storage.CsiDriver] = {}
        self._capacities: dict[tuple[str, str], storage.CsiStorageCapacity] = {}
        self._attachments: dict[str, storage.VolumeAttachment] = {}
        self._volumes_by_class: dict[str, dict[str, storage.PersistentVolume]] = {}
        self._attachments_by_node: dict[str, dict[str, storage.VolumeAttachment]] = {}

    def put(self, storage_object: StorageObject) -> None:
        """Add an object, or replace its previous version."""
        self.remove(storage_object)
        meta = storage_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match storage_object:
            case storage.PersistentVolumeClaim():
                self.claims[namespace, name] = storage_object
            case storage.PersistentVolume():
                self.volumes[name] = storage_object
                self._volumes_by_class.setdefault(get_volume_class(storage_object), {})[name] = storage_object
            case storage.StorageClass():
                self.classes[name] = storage_object
            case storage.CsiNode():
                self.attach_limits[name] = _parse_attach_limits(storage_object)
                self.installed_drivers[name] = frozenset(driver.name for driver in _list_drivers(storage_object))
            case storage.CsiDriver():
                self.drivers[name] = storage_object
            case storage.CsiStorageCapacity():
                self._capacities[namespace, name] = storage_object
            case storage.VolumeAttachment():
                self._attachments[name] = storage_object
                self._attachments_by_node.setdefault(_get_node_name(storage_object), {})[name] = storage_object

    def remove(self, storage_object: StorageObject) -> None:
        """Remove an object; only its kind, namespace and name matter."""
        meta = storage_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match storage_object:
            case storage.PersistentVolumeClaim():
                self.claims.pop((namespace, name), None)
            case storage.PersistentVolume():
                self._remove_volume(name)
            case storage.StorageClass():
                self.classes.pop(name, None)
            case storage.CsiNode():
                self.attach_limits.pop(name, None)
                self.installed_drivers.pop(name, None)
            case storage.CsiDriver():
                self.drivers.pop(name, None)
            case storage.CsiStorageCapacity():
                self._capacities.pop((namespace, name), None)
            case storage.VolumeAttachment():
                self._remove_attachment(name)

    def get_class_volumes(self, name: str) -> Mapping[str, storage.PersistentVolume]:
        return self._volumes_by_class.get(name, _NO_VOLUMES)

    def list_capacities(self) -> Iterable[storage.CsiStorageCapacity]:
        """Return the CSIStorageCapacity objects: the free capacity of storage classes."""
        return self._capacities.values()

    def list_attachments(self, node: str) -> Iterable[storage.VolumeAttachment]:
        """Return the attachments of a node, both attached and requested ones."""
        return self._attachments_by_node.get(node, _NO_ATTACHMENTS).values()

    def _remove_volume(self, name: str) -> None:
        volume = self.volumes.pop(name, None)
        if volume is not None:
            self._volumes_by_class[get_volume_class(volume)].pop(name)

    def _remove_attachment(self, name: str) -> None:
        attachment = self._attachments.pop(name, None)
        if attachment is not None:
            self._attachments_by_node[_get_node_name(attachment)].pop(name)


def get_claim_class(claim: storage.PersistentVolumeClaim) -> str:
    """Return the storage class of a claim, empty if it has none.

    (GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go, v1.36, as `get_volume_class`.)
    """
    meta, spec = claim.metadata or ObjectMeta(), claim.spec or storage.VolumeClaimSpec()
    return (meta.annotations or {}).get(_CLASS_ANNOTATION, spec.storage_class_name or "")


def get_volume_class(volume: storage.PersistentVolume) -> str:
    """Return the storage class of a volume, empty if it has none."""
    meta, spec = volume.metadata or ObjectMeta(), volume.spec or storage.VolumeSpec()
    return (meta.annotations or {}).get(_CLASS_ANNOTATION, spec.storage_class_name or "")


def _parse_attach_limits(node: storage.CsiNode) -> Mapping[str, int]:
    """Return the volume limit of each driver on a node (GetVolumeLimits in plugins/nodevolumelimits/csi.go, v1.36)."""
    counts = {driver.name: driver.allocatable.count for driver in _list_drivers(node) if driver.allocatable}
    return {name: count for name, count in counts.items() if count is not None}


def _list_drivers(node: storage.CsiNode) -> Sequence[storage.CsiNodeDriver]:
    return (node.spec.drivers if node.spec else None) or ()


def _get_node_name(attachment: storage.VolumeAttachment) -> str:
    return attachment.spec.node_name if attachment.spec else ""
