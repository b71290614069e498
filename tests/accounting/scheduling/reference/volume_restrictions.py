"""framework/plugins/volumerestrictions/volume_restrictions.go."""

from __future__ import annotations

from dataclasses import dataclass

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import Json, get_namespace, get_spec, get_volumes
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable, unschedulable

_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")


@dataclass(slots=True)
class _State:
    """preFilterState: claims of access mode ReadWriteOncePod, and the number of references to them."""

    claims: set[str]
    references: int

    def clone(self) -> _State:
        return _State(self.claims, self.references)


class VolumeRestrictions(Plugin):
    """Disks that only one pod may write, and claims that only one pod may use."""

    name = "VolumeRestrictions"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement VolumeRestrictions.PreFilter, readWriteOncePodPVCsForPod, calPreFilterState."""
        claims, namespace = set(), get_namespace(pod.pod)
        for name in list_claim_names(pod.pod):
            claim = cycle.cluster.find("PersistentVolumeClaim", name, namespace)
            if claim is None:
                return None, unresolvable(f'persistentvolumeclaim "{name}" not found')
            if "ReadWriteOncePod" in (get_spec(claim).get("accessModes") or []):
                claims.add(name)
        state = _State(claims, sum(_is_used(cycle.cluster, namespace, each) for each in claims))
        if not state.references and not any(_is_checked(each) for each in get_volumes(pod.pod)):
            return None, SKIP
        cycle.states[self.name] = state
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement VolumeRestrictions.Filter, satisfyVolumeConflicts, satisfyReadWriteOncePod."""
        disks = [each for each in get_volumes(pod.pod) if _is_checked(each)]
        if any(
            _is_conflict(disk, volume) for disk in disks for other in node.pods for volume in get_volumes(other.pod)
        ):
            return unschedulable("node(s) had no available disk")
        if cycle.states[self.name].references > 0:
            return unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
                "another pod"
            )
        return SUCCESS

    def count(self, cycle: Cycle, _pod: PodInfo, other: PodInfo, _node: NodeInfo, by: int) -> None:
        """Implement AddPod, RemovePod, conflictingPVCRefCountForPod, which ignores the namespace."""
        state: _State = cycle.states[self.name]
        state.references += by * sum(each in state.claims for each in list_claim_names(other.pod))


def list_claim_names(pod: Json) -> list[str]:
    """Return the names of the claims of a pod's volumes."""
    claims = [each.get("persistentVolumeClaim") for each in get_volumes(pod)]
    return [str(each.get("claimName", "")) for each in claims if each is not None]


def _is_used(cluster: Cluster, namespace: str, claim: str) -> bool:
    """Implement IsPVCUsedByPods in backend/cache/snapshot.go."""
    pods = [each.pod for node in cluster.nodes for each in node.pods]
    return any(get_namespace(each) == namespace and claim in list_claim_names(each) for each in pods)


def _is_checked(volume: Json) -> bool:
    """Implement `needsRestrictionsCheck`."""
    return any(volume.get(each) is not None for each in _DISKS)


def _is_conflict(volume: Json, existing: Json) -> bool:
    """Implement `isVolumeConflict`, for one volume of the other pod."""
    return any(
        volume.get(disk) is not None and existing.get(disk) is not None and same(volume[disk], existing[disk])
        for disk, same in _SAME.items()
    )


def _is_written(volume: Json, existing: Json) -> bool:
    return not (volume.get("readOnly") and existing.get("readOnly"))


def _same_gce(volume: Json, existing: Json) -> bool:
    return volume["pdName"] == existing["pdName"] and _is_written(volume, existing)


def _same_ebs(volume: Json, existing: Json) -> bool:
    return bool(volume["volumeID"] == existing["volumeID"])


def _same_iscsi(volume: Json, existing: Json) -> bool:
    return volume["iqn"] == existing["iqn"] and _is_written(volume, existing)


def _same_rbd(volume: Json, existing: Json) -> bool:
    monitors = set(volume.get("monitors") or []) & set(existing.get("monitors") or [])
    pool, other_pool = volume.get("pool") or "rbd", existing.get("pool") or "rbd"
    is_same = bool(monitors) and pool == other_pool and volume["image"] == existing["image"]
    return is_same and _is_written(volume, existing)


_SAME = {
    "gcePersistentDisk": _same_gce,
    "awsElasticBlockStore": _same_ebs,
    "iscsi": _same_iscsi,
    "rbd": _same_rbd,
}
