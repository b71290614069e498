"""In-tree volumes that nodes have migrated to CSI drivers: not transcribed, and said so."""

from tests.accounting.scheduling.plain.cluster import Cluster
from tests.accounting.scheduling.plain.errors import NotModelledError
from tests.accounting.scheduling.plain.objects import Json, annotations_of

_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

IN_TREE = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "portworxVolume": "kubernetes.io/portworx-volume",
}
"""Field of a volume's source, and the plugin's name (isCSIMigrationOnForPlugin in volumebinding/binder.go)."""


def is_migrated_on_every_node(source: Json) -> bool:
    """`isCSIMigrationOn` in framework/plugins/nodevolumelimits/utils.go: a CSINode is enough."""
    return any(source.get(each) is not None for each in IN_TREE)


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
