"""framework/plugins/volumebinding/volume_binding.go and binder.go."""

from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.amounts import quantity
from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.migration import refuse_migrated
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    annotations_of,
    is_being_deleted,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.selectors import SelectorError, label_selector, requirements
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable
from tests.accounting.scheduling.reference.volumes import (
    asked_size,
    claims_of,
    class_of_claim,
    class_of_volume,
    find_matching,
    matches_node_affinity,
    not_for_pod,
    waits,
)

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"

_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
_NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass(slots=True)
class _Claims:
    """PodVolumeClaims."""

    bound: list[Json] = field(default_factory=list)
    waiting: list[Json] = field(default_factory=list)
    immediate: list[Json] = field(default_factory=list)


class VolumeBinding(Plugin):
    """Bound claims go where their volume is; waiting ones where a volume is found or can be made."""

    name = "VolumeBinding"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """VolumeBinding.PreFilter."""
        names = claims_of(pod.pod)
        if not names:
            return None, SKIP
        for each, is_ephemeral in names:
            error = _claim_error(cycle.cluster, pod.pod, each, is_ephemeral=is_ephemeral)
            if error is not None:
                return None, unresolvable(error)
        claims = _claims(cycle.cluster, pod.pod, [each for each, _ in names])
        if claims.immediate:
            return None, unresolvable("pod has unbound immediate PersistentVolumeClaims")
        cycle.states[self.name] = claims
        return None, SUCCESS

    def filter(self, cycle: Cycle, _pod: PodInfo, node: NodeInfo) -> Status:
        """VolumeBinding.Filter."""
        reasons = _find_pod_volumes(cycle.cluster, cycle.states[self.name], node)
        return unresolvable(*reasons) if reasons else SUCCESS


def _claim_error(cluster: Cluster, pod: Json, name: str, *, is_ephemeral: bool) -> str | None:
    """`podHasPVCs`, for one claim."""
    claim = cluster.find("PersistentVolumeClaim", name, namespace_of(pod))
    if claim is None and is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if status_of(claim).get("phase") == "Lost":
        volume = spec_of(claim).get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if is_being_deleted(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return not_for_pod(pod, claim) if is_ephemeral else None


def _claims(cluster: Cluster, pod: Json, names: list[str]) -> _Claims:
    """GetPodVolumeClaims, of claims that are known to be there."""
    claims, namespace = _Claims(), namespace_of(pod)
    found = (cluster.find("PersistentVolumeClaim", each, namespace) for each in names)
    for claim in (each for each in found if each is not None):
        volume = spec_of(claim).get("volumeName")
        if volume and _BIND_COMPLETED in annotations_of(claim):
            claims.bound.append(claim)
        elif waits(cluster, claim) and not volume:
            claims.waiting.append(claim)
        else:
            claims.immediate.append(claim)
    return claims


def _find_pod_volumes(cluster: Cluster, claims: _Claims, node: NodeInfo) -> list[str]:
    """FindPodVolumes."""
    is_reachable, is_found = _check_bound(cluster, claims.bound, node)
    is_satisfied, is_sufficient = _check_waiting(cluster, claims.waiting, node)
    reasons = {
        _NODE_CONFLICT: is_reachable,
        _BIND_CONFLICT: is_satisfied,
        _NOT_ENOUGH_SPACE: is_sufficient,
        _NO_VOLUME: is_found,
    }
    return [reason for reason, holds in reasons.items() if not holds]


def _check_bound(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """checkBoundClaims: whether the node reaches all volumes, and whether they are there."""
    for each in claims:
        volume = cluster.find("PersistentVolume", spec_of(each)["volumeName"])
        if volume is None:
            return True, False
        refuse_migrated(cluster, spec_of(volume), node.name)
        if not matches_node_affinity(volume, node.labels):
            return False, True
    return True, True


def _check_waiting(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """The part of FindPodVolumes for claims not bound: whether all find a volume, and whether there is space."""
    to_match: list[Json] = []
    to_provision: list[Json] = []
    for each in claims:
        selected = annotations_of(each).get(_SELECTED_NODE)
        if selected is not None and selected != node.name:
            return False, True
        (to_match if selected is None else to_provision).append(each)
    to_provision += _unmatched(cluster, to_match, node)
    return _check_provisions(cluster, to_provision, node)


def _unmatched(cluster: Cluster, claims: list[Json], node: NodeInfo) -> list[Json]:
    """findMatchingVolumes: the claims that find no volume, the smallest having chosen first."""
    chosen: set[str] = set()
    unmatched = []
    for claim in sorted(claims, key=asked_size):
        volumes = [each for each in cluster.all("PersistentVolume") if class_of_volume(each) == class_of_claim(claim)]
        found = find_matching(claim, volumes, node.node, chosen)
        if found is None:
            unmatched.append(claim)
        else:
            chosen.add(name_of(found))
    return unmatched


def _check_provisions(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """`checkVolumeProvisions`. The class is there: without it the claim would not be waiting."""
    for claim in claims:
        found = cluster.find("StorageClass", class_of_claim(claim)) or {}
        if found.get("provisioner") in ("", None, _NO_PROVISIONER):
            return False, True
        if not _allows(found.get("allowedTopologies") or [], node.labels):
            return False, True
        if not _has_capacity(cluster, claim, found, node):
            return True, False
    return True, True


def _allows(topologies: list[Json], labels: Labels) -> bool:
    """MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go."""
    return not topologies or any(_allows_term(each.get("matchLabelExpressions") or [], labels) for each in topologies)


def _allows_term(expressions: list[Json], labels: Labels) -> bool:
    """TopologySelectorRequirementsAsSelector, matched; an empty term matches nothing."""
    try:
        needed = requirements({**each, "operator": "In"} for each in expressions)
    except SelectorError:
        return False
    return bool(needed) and all(each.matches(labels) for each in needed)


def _has_capacity(cluster: Cluster, claim: Json, storage_class: Json, node: NodeInfo) -> bool:
    """hasEnoughCapacity: asked of those drivers only that say how much they have."""
    if "storage" not in ((spec_of(claim).get("resources") or {}).get("requests") or {}):
        return True
    driver = cluster.find("CSIDriver", storage_class["provisioner"])
    if driver is None or not spec_of(driver).get("storageCapacity"):
        return True
    capacities = [
        each for each in cluster.all("CSIStorageCapacity") if each.get("storageClassName") == name_of(storage_class)
    ]
    size = asked_size(claim).value()
    return any(_is_sufficient(each, size) and _has_access(node, each) for each in capacities)


def _is_sufficient(capacity: Json, size: int) -> bool:
    """`capacitySufficient`, volumeLimit."""
    limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return limit is not None and quantity(limit).value() >= size


def _has_access(node: NodeInfo, capacity: Json) -> bool:
    """`nodeHasAccess`."""
    topology = capacity.get("nodeTopology")
    return topology is not None and label_selector(topology).matches(labels_of(node.node))
