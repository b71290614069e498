"""Disks that two pods cannot have, and claims that one pod at a time may use.

Source: plugins/volumerestrictions/volume_restrictions.go, v1.36.
"""

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_now
from webhook.accounting.fit.volumes.claims import named, not_found, spec_of
from webhook.objects.scheduling import Volume

_Supposed = Collection[tuple[PodInfo, int]]

_ALONE = "ReadWriteOncePod"
_NO_DISK = "node(s) had no available disk"
_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def refusal(pod: Incoming, cluster: Cluster) -> str | None:
    """Why a pod cannot be placed: the first claim that is not there, of those that are not its own."""
    if cluster.storage is None:
        return None
    for each in named(pod):
        if not each.is_own and (pod.namespace, each.name) not in cluster.storage.claims:
            return not_found("persistentvolumeclaim", each.name)
    return None


def restricted(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes with a pod that has a disk of this pod's; all nodes, when a claim is taken by another pod."""
    disks = [each for each in pod.spec.volumes or () if is_disk(each)]
    has_disk = _having(disks, cluster, places) if disks else np.zeros(len(places), dtype=np.bool_)
    yield for_now(_NO_DISK, has_disk)
    if _is_in_use(pod, cluster, has_disks=bool(disks)):
        yield for_now(_IN_USE, ~has_disk)


def is_disk(volume: Volume) -> bool:
    """Whether a volume is a disk that the pod names without a claim."""
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(each is not None for each in disks)


def _having(disks: list[Volume], cluster: Cluster, places: Places) -> Mask:
    mounting = cluster.get_volume_counts()
    return np.array(
        [place in mounting and _has_one(disks, cluster, place) for place in places.tolist()], dtype=np.bool_
    )


def _has_one(disks: list[Volume], cluster: Cluster, place: int) -> bool:
    others = [volume for pod in cluster.get_node_pods(place).values() for volume in pod.volumes]
    return any(_conflict(disk, other) for disk in disks for other in others)


def _conflict(ours: Volume, theirs: Volume) -> bool:
    """isVolumeConflict: the same disk, unless both only read it, where that helps."""
    return _same_google(ours, theirs) or _same_amazon(ours, theirs) or _same_scsi(ours, theirs) or _same(ours, theirs)


def _same_google(ours: Volume, theirs: Volume) -> bool:
    one, other = ours.gce_persistent_disk, theirs.gce_persistent_disk
    if one is None or other is None:
        return False
    return one.pd_name == other.pd_name and not (one.read_only and other.read_only)


def _same_amazon(ours: Volume, theirs: Volume) -> bool:
    one, other = ours.aws_elastic_block_store, theirs.aws_elastic_block_store
    return one is not None and other is not None and one.volume_id == other.volume_id


def _same_scsi(ours: Volume, theirs: Volume) -> bool:
    one, other = ours.iscsi, theirs.iscsi
    return one is not None and other is not None and one.iqn == other.iqn and not (one.read_only and other.read_only)


def _same(ours: Volume, theirs: Volume) -> bool:
    """The same Ceph image."""
    one, other = ours.rbd, theirs.rbd
    if one is None or other is None or (one.read_only and other.read_only):
        return False
    is_one = (one.pool, one.image) == (other.pool, other.image)
    return is_one and not set(one.monitors or ()).isdisjoint(other.monitors or ())


def _is_in_use(pod: Incoming, cluster: Cluster, *, has_disks: bool) -> bool:
    """Whether other pods use claims of this pod's that one pod alone may use.

    The scheduler counts claims in use once, and then adds or takes away a pod's volumes by the name of their claim,
    whatever their namespace. It does not look again where no claim was in use and the pod has no disk.
    """
    claims = _alone(pod, cluster)
    if not claims:
        return False
    supposed = cluster.fork_changes.values()
    in_use = sum(_claimants_before(cluster, pod.namespace, each, supposed) > 0 for each in claims)
    if not in_use and not has_disks:
        return False
    return in_use + sum(sign * _naming(other, claims) for other, sign in supposed) > 0


def _alone(pod: Incoming, cluster: Cluster) -> frozenset[str]:
    """The claims of a pod that one pod alone may use."""
    if cluster.storage is None:
        return frozenset()
    claims = cluster.storage.claims
    return frozenset(
        each.name
        for each in named(pod)
        if not each.is_own
        and (claim := claims.get((pod.namespace, each.name))) is not None
        and _ALONE in (spec_of(claim).access_modes or ())
    )


def _claimants_before(cluster: Cluster, namespace: str, claim: str, supposed: _Supposed) -> int:
    """How many volumes name a claim, of pods that are on nodes in truth."""
    different = sum(sign * _naming(pod, {claim}) for pod, sign in supposed if pod.namespace == namespace)
    return cluster.count_claim_users(namespace, claim) - different


def _naming(pod: PodInfo, claims: AbstractSet[str]) -> int:
    """How many of a pod's volumes name one of these claims."""
    return sum(
        each.persistent_volume_claim is not None and each.persistent_volume_claim.claim_name in claims
        for each in pod.volumes
    )
