"""The plugin VolumeRestrictions: disks that two pods cannot share, and claims that one pod at a time may use.

Source: plugins/volumerestrictions/volume_restrictions.go, v1.36.
"""

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unschedulable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.pod_claims import format_not_found, get_claim_spec, list_claim_refs
from tallygate.objects.scheduling import Volume

_ForkedPods = Collection[tuple[PodInfo, int]]

_READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_NO_DISK = "node(s) had no available disk"
_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def pre_filter_volume_restrictions(pod: IncomingPod, cluster: Cluster) -> str | None:
    """Return the reason why a pod fits no node: the first missing claim that is not its own; else None."""
    if cluster.storage is None:
        return None
    for ref in list_claim_refs(pod):
        if not ref.is_own and (pod.namespace, ref.name) not in cluster.storage.claims:
            return format_not_found("persistentvolumeclaim", ref.name)
    return None


def filter_volume_restrictions(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes with a pod that uses a disk of this pod; all nodes if another pod uses an exclusive claim."""
    disks = [volume for volume in pod.spec.volumes or () if is_disk(volume)]
    has_conflict = _mask_disk_conflicts(disks, cluster, nodes) if disks else np.zeros(len(nodes), dtype=np.bool_)
    yield mark_unschedulable(_NO_DISK, has_conflict)
    if _has_claim_in_use(pod, cluster, has_disks=bool(disks)):
        yield mark_unschedulable(_IN_USE, ~has_conflict)


def is_disk(volume: Volume) -> bool:
    """Return whether a volume is an inline disk, without a claim."""
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(disk is not None for disk in disks)


def _mask_disk_conflicts(disks: list[Volume], cluster: Cluster, nodes: NodeIndices) -> Mask:
    mounting = cluster.get_volume_counts()
    return np.array(
        [node_index in mounting and _has_disk_conflict(disks, cluster, node_index) for node_index in nodes.tolist()],
        dtype=np.bool_,
    )


def _has_disk_conflict(disks: list[Volume], cluster: Cluster, node_index: int) -> bool:
    mounted_volumes = [volume for pod in cluster.get_node_pods(node_index).values() for volume in pod.volumes]
    return any(_is_conflicting(disk, mounted_volume) for disk in disks for mounted_volume in mounted_volumes)


def _is_conflicting(ours: Volume, theirs: Volume) -> bool:
    """Return whether two volumes are one disk that two pods cannot share (isVolumeConflict).

    Two pods share a disk if both only read it, except an AWS one.
    """
    return (
        _is_same_gce_disk(ours, theirs)
        or _is_same_aws_disk(ours, theirs)
        or _is_same_iscsi_disk(ours, theirs)
        or _is_same_rbd_image(ours, theirs)
    )


def _is_same_gce_disk(ours: Volume, theirs: Volume) -> bool:
    disk, other_disk = ours.gce_persistent_disk, theirs.gce_persistent_disk
    if disk is None or other_disk is None:
        return False
    return disk.pd_name == other_disk.pd_name and not (disk.read_only and other_disk.read_only)


def _is_same_aws_disk(ours: Volume, theirs: Volume) -> bool:
    disk, other_disk = ours.aws_elastic_block_store, theirs.aws_elastic_block_store
    return disk is not None and other_disk is not None and disk.volume_id == other_disk.volume_id


def _is_same_iscsi_disk(ours: Volume, theirs: Volume) -> bool:
    disk, other_disk = ours.iscsi, theirs.iscsi
    return (
        disk is not None
        and other_disk is not None
        and disk.iqn == other_disk.iqn
        and not (disk.read_only and other_disk.read_only)
    )


def _is_same_rbd_image(ours: Volume, theirs: Volume) -> bool:
    """Return whether both are the same Ceph image, unless both only read it."""
    disk, other_disk = ours.rbd, theirs.rbd
    if disk is None or other_disk is None or (disk.read_only and other_disk.read_only):
        return False
    is_same_image = (disk.pool, disk.image) == (other_disk.pool, other_disk.image)
    return is_same_image and not set(disk.monitors or ()).isdisjoint(other_disk.monitors or ())


def _has_claim_in_use(pod: IncomingPod, cluster: Cluster, *, has_disks: bool) -> bool:
    """Return whether other pods use claims of this pod that only one pod may use.

    The scheduler counts the claims in use once, and then adds or subtracts a pod's volumes by the name of their claim,
    regardless of the namespace. It does not check again if no claim was in use and the pod has no disk.
    """
    claims = _find_exclusive_claims(pod, cluster)
    if not claims:
        return False
    forked_pods = cluster.fork_changes.values()
    in_use = sum(_count_claimants_before_fork(cluster, pod.namespace, claim, forked_pods) > 0 for claim in claims)
    if not in_use and not has_disks:
        return False
    return in_use + sum(sign * _count_volumes_of_claims(pod_info, claims) for pod_info, sign in forked_pods) > 0


def _find_exclusive_claims(pod: IncomingPod, cluster: Cluster) -> frozenset[str]:
    if cluster.storage is None:
        return frozenset()
    claims = cluster.storage.claims
    return frozenset(
        ref.name
        for ref in list_claim_refs(pod)
        if not ref.is_own
        and (claim := claims.get((pod.namespace, ref.name))) is not None
        and _READ_WRITE_ONCE_POD in (get_claim_spec(claim).access_modes or ())
    )


def _count_claimants_before_fork(cluster: Cluster, namespace: str, claim: str, forked_pods: _ForkedPods) -> int:
    """Return the number of volumes that name a claim, of the pods on nodes before the fork."""
    fork_difference = sum(
        sign * _count_volumes_of_claims(pod, {claim}) for pod, sign in forked_pods if pod.namespace == namespace
    )
    return cluster.count_claim_users(namespace, claim) - fork_difference


def _count_volumes_of_claims(pod: PodInfo, claims: AbstractSet[str]) -> int:
    return sum(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in claims
        for volume in pod.volumes
    )
