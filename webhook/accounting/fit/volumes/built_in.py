"""Volumes of kinds that were built into Kubernetes, which CSI drivers serve now.

Source: k8s.io/csi-translation-lib plugins, isCSIMigrationOn in plugins/nodevolumelimits/utils.go, v1.36. What becomes
of such a volume's node affinity on nodes that have moved to the driver is not modelled, and named as unknown.
"""

from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.volumes.claims import get_claim_spec, list_existing_claims
from webhook.objects.scheduling import DiskReference, Volume
from webhook.objects.storage import VolumeSpec

_AMAZON = "ebs.csi.aws.com"
_AZURE = "disk.csi.azure.com"
_CINDER = "cinder.csi.openstack.org"
_GOOGLE = "pd.csi.storage.gke.io"
_PORTWORX = "pxd.portworx.com"

MIGRATED_DRIVERS = {
    "kubernetes.io/aws-ebs": _AMAZON,
    "kubernetes.io/azure-disk": _AZURE,
    "kubernetes.io/cinder": _CINDER,
    "kubernetes.io/gce-pd": _GOOGLE,
    "kubernetes.io/portworx-volume": _PORTWORX,
}
"""Provisioners by their names of old, and the drivers that serve them."""

UNCOUNTED_PROVISIONERS = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""Provisioners whose volumes are counted under no driver."""


def find_migrated_driver(source: Volume | VolumeSpec) -> str | None:
    """The driver that serves a volume of such a kind; None for any other."""
    kinds = {
        _AMAZON: source.aws_elastic_block_store,
        _AZURE: source.azure_disk,
        _CINDER: source.cinder,
        _GOOGLE: source.gce_persistent_disk,
        _PORTWORX: source.portworx_volume,
    }
    return next((driver for driver, kind in kinds.items() if kind is not None), None)


def get_disk_handle(volume: Volume) -> str:
    """What tells a disk, which a pod names without a claim, from others of its driver."""
    if volume.aws_elastic_block_store is not None:
        return volume.aws_elastic_block_store.volume_id
    if volume.gce_persistent_disk is not None:
        return volume.gce_persistent_disk.pd_name
    disk = volume.azure_disk or volume.cinder or volume.portworx_volume or DiskReference()
    return disk.disk_uri or disk.volume_id


def has_migrated_volume(pod: IncomingPod, storage: StorageIndex) -> bool:
    """Whether a claim of the pod has a volume of such a kind, where nodes may have moved to its driver."""
    volume_names = [get_claim_spec(claim).volume_name or "" for claim in list_existing_claims(pod, storage)]
    volumes = [storage.volumes[name] for name in volume_names if name in storage.volumes]
    return bool(storage.attach_limits) and any(each.spec and find_migrated_driver(each.spec) for each in volumes)
