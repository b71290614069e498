"""framework/plugins/nodevolumelimits/csi.go."""

from collections import Counter

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.migration import DRIVERS, IN_TREE, find_driver_name, get_handle
from tests.accounting.scheduling.reference.objects import Json, get_name, get_namespace, get_spec, get_volumes
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, error_status, unschedulable
from tests.accounting.scheduling.reference.volumes import find_claim_name, find_ownership_error, get_claim_class

_NEVER_MIGRATED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
_INLINE = ("azureFile", "vsphereVolume", *IN_TREE)


class _NotForPodError(Exception):
    """An ephemeral claim belongs to another pod."""


class NodeVolumeLimits(Plugin):
    """The number of volumes that a CSI driver attaches to a node."""

    name = "NodeVolumeLimits"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement CSILimits.PreFilter."""
        is_counted = any(
            find_claim_name(pod.pod, each) is not None or any(each.get(kind) is not None for kind in _INLINE)
            for each in get_volumes(pod.pod)
        )
        return None, SUCCESS if is_counted else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement CSILimits.Filter; the check for a missing driver is behind a feature gate that is off in 1.36.

        If several drivers are missing, the scheduler names any of them.
        """
        csi_node = cycle.cluster.find("CSINode", node.name)
        try:
            new = _list_attachable(cycle.cluster, pod.pod, csi_node)
            limits = _read_limits(csi_node)
            if cycle.minor >= 37 and (missing := _list_missing_drivers(cycle.cluster, new, csi_node)):
                return unschedulable(f"{missing[0]} CSI driver is not installed on the node")
            if not new or not limits:
                return SUCCESS
            attached: dict[str, str] = {}
            for other in node.pods:
                attached |= _list_attachable(cycle.cluster, other.pod, csi_node)
        except _NotForPodError as error:
            return error_status(str(error))
        return _check_limits(limits, new, attached, _list_attachments(cycle.cluster, node.name))


def _check_limits(
    limits: dict[str, int], new: dict[str, str], attached: dict[str, str], others: dict[str, str]
) -> Status:
    """Return whether every driver with new volumes stays within its limit; mappings are from volume to driver."""
    current = Counter((others | attached).values())
    for driver, count in Counter(driver for volume, driver in new.items() if volume not in attached).items():
        if driver in limits and current[driver] + count > limits[driver]:
            return unschedulable("node(s) exceed max volume count")
    return SUCCESS


def _list_missing_drivers(cluster: Cluster, new: dict[str, str], csi_node: Json | None) -> list[str]:
    """Implement `checkCSIDriverOnNode` for each driver; a driver is missing only if its CSIDriver prevents that."""
    installed = {each["name"] for each in get_spec(csi_node or {}).get("drivers") or []}
    return sorted(
        each
        for each in set(new.values()) - installed
        if get_spec(cluster.find("CSIDriver", each) or {}).get("preventPodSchedulingIfMissing")
    )


def _read_limits(csi_node: Json | None) -> dict[str, int]:
    """Implement `getVolumeLimits`."""
    drivers = get_spec(csi_node or {}).get("drivers") or []
    counts = {each["name"]: (each.get("allocatable") or {}).get("count") for each in drivers}
    return {name: count for name, count in counts.items() if count is not None}


def _list_attachable(cluster: Cluster, pod: Json, csi_node: Json | None) -> dict[str, str]:
    """Implement `filterAttachableVolumes`: return the unique name and the driver of each volume of a pod."""
    found: dict[str, str] = {}
    for volume in get_volumes(pod):
        reference = find_claim_name(pod, volume)
        if reference is None:
            driver = find_driver_name(volume) if csi_node is not None else ""  # isCSIMigrationOn: a CSINode is enough
            found |= {f"{driver}/{get_handle(volume)}": driver} if driver else {}
            continue
        name, is_ephemeral = reference
        claim = cluster.find("PersistentVolumeClaim", name, get_namespace(pod))
        if claim is None:
            continue
        error = find_ownership_error(pod, claim) if is_ephemeral else None
        if error is not None:
            raise _NotForPodError(error)
        driver, handle = _find_driver(cluster, claim, csi_node)
        if driver and handle:
            found[f"{driver}/{handle}"] = driver
    return found


def _find_driver(cluster: Cluster, claim: Json, csi_node: Json | None) -> tuple[str, str]:
    """Return driver and handle of a claim's volume (getCSIDriverInfo)."""
    volume = cluster.find("PersistentVolume", get_spec(claim).get("volumeName") or "")
    if volume is None:
        return _driver_of_class(cluster, claim, csi_node)
    source = get_spec(volume).get("csi")
    if source is None:
        _reject_translated(get_spec(volume), csi_node)
        return "", ""
    return source.get("driver") or "", source.get("volumeHandle") or ""


def _driver_of_class(cluster: Cluster, claim: Json, csi_node: Json | None) -> tuple[str, str]:
    """Return the driver of a volume to be provisioned, and a unique name (getCSIDriverInfoFromSC)."""
    storage_class = cluster.find("StorageClass", get_claim_class(claim))
    if storage_class is None:
        return "", ""
    provisioner = storage_class.get("provisioner") or ""
    if provisioner in _NEVER_MIGRATED or (provisioner in DRIVERS and csi_node is None):
        return "", ""
    return DRIVERS.get(provisioner, provisioner), f"to be made-{get_namespace(claim)}/{get_name(claim)}"


def _reject_translated(source: Json, csi_node: Json | None) -> None:
    """Check that no translated volume would be counted, since its handle has more parts (TranslateInTreePVToCSI).

    Raises:
        NotModelledError: if it would be counted.
    """
    if csi_node is not None and find_driver_name(source) in _read_limits(csi_node):
        raise NotModelledError(f"an in-tree volume on node {get_name(csi_node)}, whose driver has a limit")


def _list_attachments(cluster: Cluster, node: str) -> dict[str, str]:
    """Implement `getNodeVolumeAttachmentInfo`."""
    found = {}
    for each in (each for each in cluster.list_objects("VolumeAttachment") if get_spec(each).get("nodeName") == node):
        attacher = get_spec(each).get("attacher")
        name = (get_spec(each).get("source") or {}).get("persistentVolumeName")
        volume = cluster.find("PersistentVolume", name) if attacher and name else None
        source = get_spec(volume or {}).get("csi")
        if source is not None:
            found[f"{attacher}/{source.get('volumeHandle', '')}"] = str(attacher)
    return found
