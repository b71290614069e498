"""framework/plugins/volumebinding/volume_binding.go and binder.go."""

from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.amounts import parse_quantity
from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.migration import reject_migrated
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    get_annotations,
    get_labels,
    get_name,
    get_namespace,
    get_spec,
    get_status,
    is_being_deleted,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.selectors import SelectorError, parse_label_selector, parse_requirements
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable
from tests.accounting.scheduling.reference.volumes import (
    find_matching,
    find_ownership_error,
    get_claim_class,
    get_requested_size,
    get_volume_class,
    list_claims,
    matches_node_affinity,
    waits_for_consumer,
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
    """Volumes of bound claims, and volumes that waiting claims can bind to or get."""

    name = "VolumeBinding"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement VolumeBinding.PreFilter."""
        names = list_claims(pod.pod)
        if not names:
            return None, SKIP
        for each, is_ephemeral in names:
            error = _find_claim_error(cycle.cluster, pod.pod, each, is_ephemeral=is_ephemeral)
            if error is not None:
                return None, unresolvable(error)
        claims = _group_claims(cycle.cluster, pod.pod, [each for each, _ in names])
        if claims.immediate:
            return None, unresolvable("pod has unbound immediate PersistentVolumeClaims")
        cycle.states[self.name] = claims
        return None, SUCCESS

    def filter(self, cycle: Cycle, _pod: PodInfo, node: NodeInfo) -> Status:
        """Implement VolumeBinding.Filter."""
        reasons = _find_pod_volumes(cycle.cluster, cycle.states[self.name], node)
        return unresolvable(*reasons) if reasons else SUCCESS


def _find_claim_error(cluster: Cluster, pod: Json, name: str, *, is_ephemeral: bool) -> str | None:
    """Implement `podHasPVCs`, for one claim."""
    claim = cluster.find("PersistentVolumeClaim", name, get_namespace(pod))
    if claim is None and is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if get_status(claim).get("phase") == "Lost":
        volume = get_spec(claim).get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if is_being_deleted(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return find_ownership_error(pod, claim) if is_ephemeral else None


def _group_claims(cluster: Cluster, pod: Json, names: list[str]) -> _Claims:
    """Implement GetPodVolumeClaims, for claims that exist."""
    claims, namespace = _Claims(), get_namespace(pod)
    found = (cluster.find("PersistentVolumeClaim", each, namespace) for each in names)
    for claim in (each for each in found if each is not None):
        volume = get_spec(claim).get("volumeName")
        if volume and _BIND_COMPLETED in get_annotations(claim):
            claims.bound.append(claim)
        elif waits_for_consumer(cluster, claim) and not volume:
            claims.waiting.append(claim)
        else:
            claims.immediate.append(claim)
    return claims


def _find_pod_volumes(cluster: Cluster, claims: _Claims, node: NodeInfo) -> list[str]:
    """Implement FindPodVolumes."""
    is_reachable, is_found = _check_bound(cluster, claims.bound, node)
    is_satisfied, is_sufficient = _check_waiting(cluster, claims.waiting, node)
    reasons = {
        _NODE_CONFLICT: is_reachable,
        _BIND_CONFLICT: is_satisfied,
        _NOT_ENOUGH_SPACE: is_sufficient,
        _NO_VOLUME: is_found,
    }
    return [reason for reason, is_met in reasons.items() if not is_met]


def _check_bound(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """Return whether the node can access all volumes, and whether they exist (checkBoundClaims)."""
    for each in claims:
        volume = cluster.find("PersistentVolume", get_spec(each)["volumeName"])
        if volume is None:
            return True, False
        reject_migrated(cluster, get_spec(volume), node.name)
        if not matches_node_affinity(volume, node.labels):
            return False, True
    return True, True


def _check_waiting(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """Return whether all unbound claims find a volume, and whether there is space (a part of FindPodVolumes)."""
    to_match: list[Json] = []
    to_provision: list[Json] = []
    for each in claims:
        selected = get_annotations(each).get(_SELECTED_NODE)
        if selected is not None and selected != node.name:
            return False, True
        (to_match if selected is None else to_provision).append(each)
    to_provision += _find_unmatched(cluster, to_match, node)
    return _check_provisions(cluster, to_provision, node)


def _find_unmatched(cluster: Cluster, claims: list[Json], node: NodeInfo) -> list[Json]:
    """Return the claims without a matching volume; the smallest claim chooses first (findMatchingVolumes)."""
    chosen: set[str] = set()
    unmatched = []
    for claim in sorted(claims, key=get_requested_size):
        volumes = [
            each
            for each in cluster.list_objects("PersistentVolume")
            if get_volume_class(each) == get_claim_class(claim)
        ]
        found = find_matching(claim, volumes, node.node, chosen)
        if found is None:
            unmatched.append(claim)
        else:
            chosen.add(get_name(found))
    return unmatched


def _check_provisions(cluster: Cluster, claims: list[Json], node: NodeInfo) -> tuple[bool, bool]:
    """Implement `checkVolumeProvisions`. The class exists: without it the claim would not be waiting."""
    for claim in claims:
        found = cluster.find("StorageClass", get_claim_class(claim)) or {}
        if found.get("provisioner") in ("", None, _NO_PROVISIONER):
            return False, True
        if not _matches_topologies(found.get("allowedTopologies") or [], node.labels):
            return False, True
        if not _has_capacity(cluster, claim, found, node):
            return True, False
    return True, True


def _matches_topologies(topologies: list[Json], labels: Labels) -> bool:
    """Implement MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go."""
    return not topologies or any(
        _matches_topology(each.get("matchLabelExpressions") or [], labels) for each in topologies
    )


def _matches_topology(expressions: list[Json], labels: Labels) -> bool:
    """Match TopologySelectorRequirementsAsSelector against labels; an empty term matches nothing."""
    try:
        needed = parse_requirements({**each, "operator": "In"} for each in expressions)
    except SelectorError:
        return False
    return bool(needed) and all(each.matches(labels) for each in needed)


def _has_capacity(cluster: Cluster, claim: Json, storage_class: Json, node: NodeInfo) -> bool:
    """Implement hasEnoughCapacity, for drivers that publish their capacity."""
    if "storage" not in ((get_spec(claim).get("resources") or {}).get("requests") or {}):
        return True
    driver = cluster.find("CSIDriver", storage_class["provisioner"])
    if driver is None or not get_spec(driver).get("storageCapacity"):
        return True
    capacities = [
        each
        for each in cluster.list_objects("CSIStorageCapacity")
        if each.get("storageClassName") == get_name(storage_class)
    ]
    size = get_requested_size(claim).value()
    return any(_is_sufficient(each, size) and _has_access(node, each) for each in capacities)


def _is_sufficient(capacity: Json, size: int) -> bool:
    """Implement `capacitySufficient`, volumeLimit."""
    limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return limit is not None and parse_quantity(limit).value() >= size


def _has_access(node: NodeInfo, capacity: Json) -> bool:
    """Implement `nodeHasAccess`."""
    topology = capacity.get("nodeTopology")
    return topology is not None and parse_label_selector(topology).matches(get_labels(node.node))
