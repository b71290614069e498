"""In-tree volumes that nodes have migrated to CSI drivers: they are counted, but not translated."""

from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.objects import Json, get_annotations

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
"""The plugin's name, and the driver's name (GetCSINameFromInTreeName in csi-translation-lib/translate.go)."""

_NAMES = ("volumeID", "pdName", "diskURI")


def find_driver_name(source: Json) -> str:
    """Return the driver of an in-tree volume; empty for other volumes."""
    return next((DRIVERS[plugin] for kind, plugin in IN_TREE.items() if source.get(kind) is not None), "")


def get_handle(source: Json) -> str:
    """Return the identity of the volume within its driver (TranslateInTreeInlineVolumeToCSI)."""
    (disk,) = (source[kind] for kind in IN_TREE if source.get(kind) is not None)
    name = str(next((disk[each] for each in _NAMES if disk.get(each)), ""))
    return name.rstrip("/").rpartition("/")[2] if name.startswith("aws://") else name


def reject_migrated(cluster: Cluster, source: Json, node: str) -> None:
    """Check that a volume need not be translated (tryTranslatePVToCSI).

    Raises:
        NotModelledError: if the node has migrated the volume's plugin.
    """
    csi_node = cluster.find("CSINode", node)
    migrated = get_annotations(csi_node or {}).get(_MIGRATED_PLUGINS, "").split(",")
    for kind, plugin in IN_TREE.items():
        if source.get(kind) is not None and plugin in migrated:
            raise NotModelledError(f"a volume of kind {kind} that node {node} has migrated to CSI")
