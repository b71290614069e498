"""The plugin NodeVolumeLimits: the number of volumes of a CSI driver that a node attaches.

Source: plugins/nodevolumelimits/csi.go, v1.36. In-tree volumes count for the CSI driver that serves them now, each as a
volume of its own. From 1.37 on (VolumeLimitScaling), a node needs the drivers of a pod's volumes whose CSIDriver has
`preventPodSchedulingIfMissing`. If a node lacks several, the scheduler reports any of them; here it is the first by
name.

Source of the migration of in-tree volumes: k8s.io/csi-translation-lib plugins, isCSIMigrationOn in
plugins/nodevolumelimits/utils.go, v1.36. The translation of such a volume's node affinity on nodes that have migrated
to the driver is not modelled, and is reported as unmodelled.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.storage_index import StorageIndex, get_claim_class
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unresolvable, mark_unschedulable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import pod_claims
from tallygate.objects.scheduling import DiskReference, Volume
from tallygate.objects.storage import CsiDriver, PersistentVolumeClaim, VolumeAttachmentSpec, VolumeSpec

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
"""The names of in-tree provisioners, and the drivers that serve their volumes."""

UNCOUNTED_PROVISIONERS = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""The provisioners whose volumes count for no driver."""

_DriverByHandle = dict[str, str]
"""The driver of each volume, by a unique name of the volume."""


def filter_node_volume_limits(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes without a driver of the pod's volumes, and nodes where the volumes would exceed its limit."""
    storage, volumes = cluster.storage, pod.spec.volumes or ()
    if storage is None or not volumes:
        return
    handles = _find_volume_handles(volumes, pod.name, pod.namespace, storage)
    node_name = cluster.nodes.get_name
    missing_drivers = _find_missing_drivers(pod, cluster, storage, nodes)
    for driver in sorted(set(missing_drivers.values())):
        rejected = np.isin(nodes, [node_index for node_index, name in missing_drivers.items() if name == driver])
        yield mark_unschedulable(f"{driver} CSI driver is not installed on the node", rejected)
    limits = {
        node_index: limit
        for node_index in nodes.tolist()
        if handles and node_index not in missing_drivers and (limit := storage.attach_limits.get(node_name(node_index)))
    }
    errors = {node_index: error for node_index in limits if (error := _find_node_error(cluster, storage, node_index))}
    is_over = [
        node_index in limits and _is_over_limit(handles, limits[node_index], cluster, storage, node_index)
        for node_index in nodes.tolist()
    ]
    has_error = np.isin(nodes, list(errors))
    for error in dict.fromkeys(errors.values()):
        rejected = np.isin(nodes, [node_index for node_index, message in errors.items() if message == error])
        yield replace(mark_unresolvable(error, rejected), is_error=True)
    yield mark_unschedulable("node(s) exceed max volume count", np.array(is_over, dtype=np.bool_) & ~has_error)


def _find_missing_drivers(
    pod: IncomingPod, cluster: Cluster, storage: StorageIndex, nodes: NodeIndices
) -> dict[int, str]:
    """Return the first missing driver of each node that lacks one (checkCSIDriverOnNode).

    A node without a CSINode has not migrated in-tree volumes to a driver, so that these need none there.
    """
    if not cluster.version.has(Switch.REQUIRES_INSTALLED_DRIVER):
        return {}
    all_handles, csi_handles = (
        _find_volume_handles(pod.spec.volumes or (), pod.name, pod.namespace, storage, is_migrated=is_migrated)
        for is_migrated in (True, False)
    )
    required = {name for name in all_handles.values() if _is_required(storage.drivers.get(name))}
    required_without_csi_node = required & set(csi_handles.values())
    missing: dict[int, str] = {}
    for node_index in nodes.tolist() if required else ():
        installed = storage.installed_drivers.get(cluster.nodes.get_name(node_index))
        lacking = required_without_csi_node if installed is None else required - installed
        if lacking:
            missing[node_index] = min(lacking)
    return missing


def _is_required(driver: CsiDriver | None) -> bool:
    return driver is not None and driver.spec is not None and driver.spec.prevent_pod_scheduling_if_missing is True


def _find_volume_handles(
    volumes: Sequence[Volume], pod: str, namespace: str, storage: StorageIndex, *, is_migrated: bool = True
) -> _DriverByHandle:
    """Return the drivers of a pod's volumes by handle, without missing claims (filterAttachableVolumes).

    `is_migrated` includes the in-tree volumes that a driver serves.
    """
    handles: _DriverByHandle = {}
    for volume in volumes:
        ref = pod_claims.get_claim_ref(volume, pod)
        handle = (
            _get_inline_handle(volume, is_migrated=is_migrated)
            if ref is None
            else _get_claim_handle(ref, namespace, storage, is_migrated=is_migrated)
        )
        if handle is not None:
            driver, name = handle
            handles[f"{driver}/{name}"] = driver
    return handles


def _get_inline_handle(volume: Volume, *, is_migrated: bool) -> tuple[str, str] | None:
    driver = find_migrated_driver(volume) if is_migrated else None
    return None if driver is None else (driver, get_disk_handle(volume))


def find_migrated_driver(source: Volume | VolumeSpec) -> str | None:
    """Return the driver that serves an in-tree volume; None for any other volume."""
    kinds = {
        _AMAZON: source.aws_elastic_block_store,
        _AZURE: source.azure_disk,
        _CINDER: source.cinder,
        _GOOGLE: source.gce_persistent_disk,
        _PORTWORX: source.portworx_volume,
    }
    return next((driver for driver, kind in kinds.items() if kind is not None), None)


def get_disk_handle(volume: Volume) -> str:
    """Return the handle that identifies an inline disk among the disks of its driver."""
    if volume.aws_elastic_block_store is not None:
        return volume.aws_elastic_block_store.volume_id
    if volume.gce_persistent_disk is not None:
        return volume.gce_persistent_disk.pd_name
    disk = volume.azure_disk or volume.cinder or volume.portworx_volume or DiskReference()
    return disk.disk_uri or disk.volume_id


def _get_claim_handle(
    ref: pod_claims.ClaimRef, namespace: str, storage: StorageIndex, *, is_migrated: bool
) -> tuple[str, str] | None:
    """Return driver and handle of a claim's volume, existing or still to be provisioned (getCSIDriverInfo)."""
    claim = storage.claims.get((namespace, ref.name))
    if claim is None:
        return None
    name = pod_claims.get_claim_spec(claim).volume_name or ""
    volume = storage.volumes.get(name)
    if volume is None:
        return _create_unprovisioned_handle(claim, namespace, ref.name, storage, is_migrated=is_migrated)
    spec = volume.spec or VolumeSpec()
    if spec.csi is not None:
        return (spec.csi.driver, spec.csi.volume_handle) if spec.csi.driver and spec.csi.volume_handle else None
    driver = find_migrated_driver(spec) if is_migrated else None
    return None if driver is None else (driver, f"volume {name}")


def _create_unprovisioned_handle(
    claim: PersistentVolumeClaim, namespace: str, name: str, storage: StorageIndex, *, is_migrated: bool
) -> tuple[str, str] | None:
    storage_class = storage.classes.get(get_claim_class(claim))
    if storage_class is None or not storage_class.provisioner or storage_class.provisioner in UNCOUNTED_PROVISIONERS:
        return None
    if storage_class.provisioner in MIGRATED_DRIVERS and not is_migrated:
        return None
    return MIGRATED_DRIVERS.get(storage_class.provisioner, storage_class.provisioner), f"to be made {namespace}/{name}"


def _find_node_error(cluster: Cluster, storage: StorageIndex, node_index: int) -> str | None:
    """Return the error of the first ephemeral claim of a pod on the node that belongs to another pod, if any."""
    if node_index not in cluster.get_ephemeral_volume_counts():
        return None
    for pod in cluster.get_node_pods(node_index).values():
        for ref in pod_claims.list_claim_refs_on_node(pod):
            claim = storage.claims.get((pod.namespace, ref.name))
            error = None if claim is None else pod_claims.find_ownership_error(ref, claim, pod)
            if error is not None:
                return error
    return None


def _is_over_limit(
    handles: _DriverByHandle, limits: Mapping[str, int], cluster: Cluster, storage: StorageIndex, node_index: int
) -> bool:
    requested_counts = Counter(handles.values())
    attached_handles = _find_attached_handles(storage, cluster.nodes.get_name(node_index))
    upper_bound = cluster.get_volume_counts().get(node_index, 0) + len(attached_handles)
    if all(upper_bound + requested_counts[driver] <= limit for driver, limit in limits.items()):
        return False
    mounted_handles = _find_mounted_handles(cluster, storage, node_index)
    current_counts = Counter((attached_handles | mounted_handles).values())
    added_counts = Counter(driver for handle, driver in handles.items() if handle not in mounted_handles)
    return any(
        count and current_counts[driver] + count > limits[driver]
        for driver, count in added_counts.items()
        if driver in limits
    )


def _find_attached_handles(storage: StorageIndex, node_name: str) -> _DriverByHandle:
    """Return the CSI volumes with an attachment to a node, attached or requested (getNodeVolumeAttachmentInfo)."""
    handles: _DriverByHandle = {}
    for attachment in storage.list_attachments(node_name):
        spec = attachment.spec or VolumeAttachmentSpec()
        name = spec.source.persistent_volume_name if spec.source else None
        volume = storage.volumes.get(name or "")
        source = volume.spec.csi if volume and volume.spec else None
        if spec.attacher and source is not None:
            handles[f"{spec.attacher}/{source.volume_handle}"] = spec.attacher
    return handles


def _find_mounted_handles(cluster: Cluster, storage: StorageIndex, node_index: int) -> _DriverByHandle:
    mounted: _DriverByHandle = {}
    for pod in cluster.get_node_pods(node_index).values():
        if pod.volumes:
            mounted |= _find_volume_handles(pod.volumes, pod.name, pod.namespace, storage)
    return mounted


def has_migrated_volume(pod: IncomingPod, storage: StorageIndex) -> bool:
    """Return whether a claim of the pod has an in-tree volume while nodes may have migrated to its driver."""
    volume_names = [
        pod_claims.get_claim_spec(claim).volume_name or "" for claim in pod_claims.list_existing_claims(pod, storage)
    ]
    volumes = [storage.volumes[name] for name in volume_names if name in storage.volumes]
    return bool(storage.attach_limits) and any(volume.spec and find_migrated_driver(volume.spec) for volume in volumes)
