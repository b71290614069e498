"""framework/plugins/nodevolumelimits/csi.go."""

from collections import Counter

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.migration import DRIVERS, IN_TREE, driver_of, handle_of
from tests.accounting.scheduling.reference.objects import Json, name_of, namespace_of, spec_of, volumes_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, failed, unschedulable
from tests.accounting.scheduling.reference.volumes import claim_of, class_of_claim, not_for_pod

_NEVER_MIGRATED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
_INLINE = ("azureFile", "vsphereVolume", *IN_TREE)


class _NotForPodError(Exception):
    """An ephemeral claim belongs to somebody else."""


class NodeVolumeLimits(Plugin):
    """A CSI driver attaches so many volumes to a node and no more."""

    name = "NodeVolumeLimits"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """CSILimits.PreFilter."""
        is_counted = any(
            claim_of(pod.pod, each) is not None or any(each.get(kind) is not None for kind in _INLINE)
            for each in volumes_of(pod.pod)
        )
        return None, SUCCESS if is_counted else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """CSILimits.Filter; a missing driver is looked for only behind a gate that is off in 1.36."""
        csi_node = cycle.cluster.find("CSINode", node.name)
        try:
            new = _attachable(cycle.cluster, pod.pod, csi_node)
            limits = _limits(csi_node)
            if not new or not limits:
                return SUCCESS
            attached: dict[str, str] = {}
            for other in node.pods:
                attached |= _attachable(cycle.cluster, other.pod, csi_node)
        except _NotForPodError as error:
            return failed(str(error))
        return _within(limits, new, attached, _attachments(cycle.cluster, node.name))


def _within(limits: dict[str, int], new: dict[str, str], attached: dict[str, str], others: dict[str, str]) -> Status:
    """Whether every driver that gets new volumes stays within its limit; mappings are from volume to driver."""
    current = Counter((others | attached).values())
    for driver, count in Counter(driver for volume, driver in new.items() if volume not in attached).items():
        if driver in limits and current[driver] + count > limits[driver]:
            return unschedulable("node(s) exceed max volume count")
    return SUCCESS


def _limits(csi_node: Json | None) -> dict[str, int]:
    """`getVolumeLimits`."""
    drivers = spec_of(csi_node or {}).get("drivers") or []
    counts = {each["name"]: (each.get("allocatable") or {}).get("count") for each in drivers}
    return {name: count for name, count in counts.items() if count is not None}


def _attachable(cluster: Cluster, pod: Json, csi_node: Json | None) -> dict[str, str]:
    """`filterAttachableVolumes`: unique name of each volume, and its driver. The new pod's claims are all there."""
    found: dict[str, str] = {}
    for volume in volumes_of(pod):
        named = claim_of(pod, volume)
        if named is None:
            driver = driver_of(volume) if csi_node is not None else ""  # isCSIMigrationOn: a CSINode is enough
            found |= {f"{driver}/{handle_of(volume)}": driver} if driver else {}
            continue
        name, is_ephemeral = named
        claim = cluster.find("PersistentVolumeClaim", name, namespace_of(pod))
        if claim is None:
            continue
        error = not_for_pod(pod, claim) if is_ephemeral else None
        if error is not None:
            raise _NotForPodError(error)
        driver, handle = _driver(cluster, claim, csi_node)
        if driver and handle:
            found[f"{driver}/{handle}"] = driver
    return found


def _driver(cluster: Cluster, claim: Json, csi_node: Json | None) -> tuple[str, str]:
    """getCSIDriverInfo: driver and handle of a claim's volume."""
    volume = cluster.find("PersistentVolume", spec_of(claim).get("volumeName") or "")
    if volume is None:
        return _driver_of_class(cluster, claim, csi_node)
    source = spec_of(volume).get("csi")
    if source is None:
        _refuse_translated(spec_of(volume), csi_node)
        return "", ""
    return source.get("driver") or "", source.get("volumeHandle") or ""


def _driver_of_class(cluster: Cluster, claim: Json, csi_node: Json | None) -> tuple[str, str]:
    """getCSIDriverInfoFromSC: a volume still to be made, under a name that no other has."""
    storage_class = cluster.find("StorageClass", class_of_claim(claim))
    if storage_class is None:
        return "", ""
    provisioner = storage_class.get("provisioner") or ""
    if provisioner in _NEVER_MIGRATED or (provisioner in DRIVERS and csi_node is None):
        return "", ""
    return DRIVERS.get(provisioner, provisioner), f"to be made-{namespace_of(claim)}/{name_of(claim)}"


def _refuse_translated(source: Json, csi_node: Json | None) -> None:
    """TranslateInTreePVToCSI, whose handles are made of more than the volume's name, where they would be counted.

    Raises:
        NotModelledError: it would.
    """
    if csi_node is not None and driver_of(source) in _limits(csi_node):
        raise NotModelledError(f"an in-tree volume on node {name_of(csi_node)}, whose driver has a limit")


def _attachments(cluster: Cluster, node: str) -> dict[str, str]:
    """`getNodeVolumeAttachmentInfo`."""
    found = {}
    for each in (each for each in cluster.all("VolumeAttachment") if spec_of(each).get("nodeName") == node):
        attacher = spec_of(each).get("attacher")
        name = (spec_of(each).get("source") or {}).get("persistentVolumeName")
        volume = cluster.find("PersistentVolume", name) if attacher and name else None
        source = spec_of(volume or {}).get("csi")
        if source is not None:
            found[f"{attacher}/{source.get('volumeHandle', '')}"] = str(attacher)
    return found
