"""In-tree volumes that nodes have migrated to CSI drivers: counted, but not translated, which is said."""

from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.objects import Json, annotations_of

_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

IN_TREE = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "portworxVolume": "kubernetes.io/portworx-volume",
}
"""Field of a volume's source, and the plugin's name (isCSIMigrationOnForPlugin in volumebinding/binder.go)."""

DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The plugin's name, and that of the driver (GetCSINameFromInTreeName in csi-translation-lib/translate.go)."""

_NAMES = ("volumeID", "pdName", "diskURI")


def driver_of(source: Json) -> str:
    """The driver of an in-tree volume; empty for others."""
    return next((DRIVERS[plugin] for kind, plugin in IN_TREE.items() if source.get(kind) is not None), "")


def handle_of(source: Json) -> str:
    """TranslateInTreeInlineVolumeToCSI: what tells the volume from others of its driver."""
    (disk,) = (source[kind] for kind in IN_TREE if source.get(kind) is not None)
    name = str(next((disk[each] for each in _NAMES if disk.get(each)), ""))
    return name.rstrip("/").rpartition("/")[2] if name.startswith("aws://") else name


def refuse_migrated(cluster: Cluster, source: Json, node: str) -> None:
    """tryTranslatePVToCSI: whether a volume would have to be read as another.

    Raises:
        NotModelledError: it would.
    """
    csi_node = cluster.find("CSINode", node)
    migrated = annotations_of(csi_node or {}).get(_MIGRATED_PLUGINS, "").split(",")
    for kind, plugin in IN_TREE.items():
        if source.get(kind) is not None and plugin in migrated:
            raise NotModelledError(f"a volume of kind {kind} that node {node} has migrated to CSI")
