"""The plugin VolumeBinding: every claim of a pod has its volume, finds one, or gets one provisioned on a node.

Source: FindPodVolumes in plugins/volumebinding/binder.go, v1.36.

Provisioning for claims that wait for a pod: checkVolumeProvisions and hasEnoughCapacity in
plugins/volumebinding/binder.go, v1.36.

Existing volumes for claims that wait for a pod: findMatchingVolumes in plugins/volumebinding/binder.go and
FindMatchingVolume in component-helpers storage/volume/pv_helpers.go, v1.36. Of equal volumes the scheduler selects any;
here it is the first by name.

Access of nodes to a volume, to a class's topologies, and to a capacity's segment depends on labels alone:
CheckNodeAffinity in component-helpers storage/volume/helpers.go, which gets a node's labels and not its name;
MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go; nodeHasAccess in plugins/volumebinding/binder.go; all
of v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.node_columns import NodeColumns
from tallygate.accounting.cluster.storage_index import StorageIndex, get_claim_class, get_volume_class
from tallygate.accounting.pod_resources import parse_resource_list
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.node_eligibility import match_selector
from tallygate.accounting.scheduling.plugins.pod_claims import (
    get_claim_meta,
    get_claim_spec,
    list_claim_refs,
    sort_claims,
)
from tallygate.accounting.selectors import SelectorError, is_valid_field, parse_selector
from tallygate.objects.core import ResourceList
from tallygate.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm, ObjectMeta, SelectorRequirement
from tallygate.objects.storage import (
    CsiDriver,
    CsiDriverSpec,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    VolumeClaimResources,
    VolumePhase,
    VolumeSpec,
)

_ZERO = Quantity.from_int(0)
_FILESYSTEM = "Filesystem"
_STORAGE = "storage"

_ChosenVolumes = NDArray[np.intp]
"""The number of the volume that each node selects, in the order of preference; -1 for none."""

_ABSENT = (b"", b"null")
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class ProvisioningObstacles(NamedTuple):
    """Nodes on which a volume cannot be provisioned: no provisioner serves them, or the capacity is too small."""

    unprovisionable: Mask
    full: Mask


_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
_VOLUME_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def filter_volume_binding(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes without access to a bound volume, and nodes without a volume for a claim.

    Raises:
        QuantityError: if the size of a claim, a volume or a capacity is invalid.
        SelectorError: if a claim's selector has an invalid requirement.
    """
    storage = cluster.storage
    if storage is None or not list_claim_refs(pod):
        return
    claims = sort_claims(pod, storage)
    unreachable, volume_missing = _check_bound_claims(claims.bound, storage, cluster.nodes, nodes)
    not_bindable, full = _check_delayed_claims(claims.delayed, storage, cluster.nodes, nodes)
    yield mark_unresolvable(_NODE_CONFLICT, unreachable)
    yield mark_unresolvable(_BIND_CONFLICT, not_bindable)
    yield mark_unresolvable(_NOT_ENOUGH_SPACE, full)
    yield mark_unresolvable(_VOLUME_NOT_EXIST, volume_missing)


def _check_bound_claims(
    claims: Iterable[PersistentVolumeClaim], storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> tuple[Mask, Mask]:
    """Return the nodes without access to a volume, and the others if a volume is missing; the first claim decides."""
    unreachable, volume_missing = np.zeros(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
    for claim in claims:
        volume = storage.volumes.get(get_claim_spec(claim).volume_name or "")
        if volume is None:
            return unreachable, ~unreachable
        unreachable |= ~mask_reaching_volume(volume, columns)[nodes]
    return unreachable, volume_missing


def mask_reaching_volume(volume: PersistentVolume, columns: NodeColumns) -> Mask:
    affinity = volume.spec.node_affinity if volume.spec else None
    if affinity is None or affinity.required is None:
        return _mask_all(columns)
    reachable = ~_mask_all(columns)
    for term in affinity.required.node_selector_terms or ():
        reachable |= _mask_volume_term(term, columns)
    return reachable


def _mask_all(columns: NodeColumns) -> Mask:
    return np.ones(columns.size, dtype=np.bool_)


def _mask_volume_term(term: NodeSelectorTerm, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes whose labels match a term: fields are ignored, since upstream passes no node name."""
    if not all(map(is_valid_field, term.match_fields or ())):
        return ~_mask_all(columns)
    if term.match_fields and not term.match_expressions:
        return _mask_all(columns)
    return match_selector(NodeSelector([NodeSelectorTerm(term.match_expressions)]), columns)


def _check_delayed_claims(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> tuple[Mask, Mask]:
    """Return the nodes without a volume or provisioner, and the nodes without capacity; the first claim decides.

    A claim with a selected node gets its volume provisioned there, and on no other node.
    """
    preselected = [claim for claim in claims if _SELECTED_NODE in (get_claim_meta(claim).annotations or {})]
    unselected = sort_by_size(
        claim for claim in claims if _SELECTED_NODE not in (get_claim_meta(claim).annotations or {})
    )
    not_selected = _mask_not_selected(preselected, columns, nodes)
    unprovisionable, full = not_selected.copy(), np.zeros(len(nodes), dtype=np.bool_)
    unmatched_masks = [np.ones(len(nodes), dtype=np.bool_) for _ in preselected]
    unmatched_masks.extend(find_unmatched_nodes(unselected, storage, columns, nodes))
    for claim, is_unmatched in zip([*preselected, *unselected], unmatched_masks, strict=True):
        is_pending = is_unmatched & ~unprovisionable & ~full
        if is_pending.any():
            obstacles = find_provisioning_obstacles(claim, storage, columns, nodes)
            unprovisionable, full = (
                unprovisionable | (is_pending & obstacles.unprovisionable),
                full | (is_pending & obstacles.full),
            )
    return unprovisionable, full


def sort_by_size(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Sort claims as volumes are matched to them: the smallest first."""
    return sorted(claims, key=lambda claim: get_requested_size(claim) or _ZERO)


def get_requested_size(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the requested size of a claim; None without one.

    Raises:
        QuantityError: if the requested size is invalid.
    """
    return _read_storage((get_claim_spec(claim).resources or VolumeClaimResources()).requests)


def _read_storage(resources: ResourceList | None) -> Quantity | None:
    return parse_resource_list(resources).get(_STORAGE)


def _mask_not_selected(preselected: Iterable[PersistentVolumeClaim], columns: NodeColumns, nodes: NodeIndices) -> Mask:
    not_selected = np.zeros(len(nodes), dtype=np.bool_)
    for claim in preselected:
        node_index = columns.find_index((get_claim_meta(claim).annotations or {}).get(_SELECTED_NODE, ""))
        not_selected |= nodes != (-1 if node_index is None else node_index)
    return not_selected


def find_unmatched_nodes(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> Iterator[Mask]:
    """Yield for each of these claims, in order, the nodes without a volume that earlier claims left free.

    Raises:
        QuantityError: if the size of a claim or a volume is invalid.
        SelectorError: if a claim's selector has an invalid requirement.
    """
    taken_volumes: dict[str, Mask] = {}
    for claim in claims:
        volumes = [
            volume
            for volume in _list_volumes_of_class(storage, get_claim_class(claim))
            if _is_compatible(claim, volume)
        ]
        choice = _choose_volumes(claim, volumes, taken_volumes, columns, nodes)
        for number in np.unique(choice[choice >= 0]).tolist():
            name = _get_name(volumes[number])
            taken_volumes[name] = taken_volumes.get(name, np.zeros(len(nodes), dtype=np.bool_)) | (choice == number)
        yield choice < 0


def _list_volumes_of_class(storage: StorageIndex, name: str) -> list[PersistentVolume]:
    """Return the volumes of a class, smallest first."""
    volumes = storage.get_class_volumes(name).values()
    return sorted(volumes, key=lambda volume: (_get_size(volume), _get_name(volume)))


def _get_size(volume: PersistentVolume) -> Quantity:
    return _read_storage(_get_spec(volume).capacity) or _ZERO


def _get_spec(volume: PersistentVolume) -> VolumeSpec:
    return volume.spec or VolumeSpec()


def _get_name(volume: PersistentVolume) -> str:
    return (volume.metadata or ObjectMeta()).name or ""


def _is_compatible(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether a volume meets the conditions for every volume, including one reserved for the claim."""
    claim_spec, volume_spec = get_claim_spec(claim), _get_spec(volume)
    if volume_spec.claim_ref is not None and not _is_bound_to(volume, claim):
        return False
    if _get_size(volume) < (get_requested_size(claim) or _ZERO) or (volume.metadata or ObjectMeta()).deletion_timestamp:
        return False
    is_same_mode = (claim_spec.volume_mode or _FILESYSTEM) == (volume_spec.volume_mode or _FILESYSTEM)
    return is_same_mode and (claim_spec.volume_attributes_class_name or "") == (
        volume_spec.volume_attributes_class_name or ""
    )


def _is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is reserved for, or bound to, a claim (IsVolumeBoundToClaim)."""
    claim_reference, meta = _get_spec(volume).claim_ref, get_claim_meta(claim)
    if claim_reference is None or (claim_reference.name, claim_reference.namespace) != (
        meta.name or "",
        meta.namespace or "",
    ):
        return False
    return not claim_reference.uid or claim_reference.uid == (meta.uid or "")


def _choose_volumes(
    claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    taken_volumes: dict[str, Mask],
    columns: NodeColumns,
    nodes: NodeIndices,
) -> _ChosenVolumes:
    """Return the volume that is reserved for the claim, where accessible; else the smallest one that is free."""
    choice: _ChosenVolumes = np.full(len(nodes), -1, dtype=np.intp)
    no_nodes = np.zeros(len(nodes), dtype=np.bool_)
    is_seeking = ~no_nodes
    pre_bound = next((number for number, volume in enumerate(volumes) if _is_bound_to(volume, claim)), None)
    if pre_bound is not None:
        is_seeking = taken_volumes.get(_get_name(volumes[pre_bound]), no_nodes)
        choice[mask_reaching_volume(volumes[pre_bound], columns)[nodes] & ~is_seeking] = pre_bound
    for number, volume in enumerate(volumes):
        if number != pre_bound and is_seeking.any() and _is_available(claim, volume):
            free = is_seeking & (choice < 0) & ~taken_volumes.get(_get_name(volume), no_nodes)
            choice[mask_reaching_volume(volume, columns)[nodes] & free] = number
    return choice


def _is_available(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    claim_spec, volume_spec = get_claim_spec(claim), _get_spec(volume)
    if (volume.status or VolumePhase()).phase != "Available" or get_volume_class(volume) != get_claim_class(claim):
        return False
    labels = (volume.metadata or ObjectMeta()).labels or {}
    if claim_spec.selector is not None and not parse_selector(claim_spec.selector).matches(labels):
        return False
    return set(claim_spec.access_modes or ()) <= set(volume_spec.access_modes or ())


def find_provisioning_obstacles(
    claim: PersistentVolumeClaim, storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> ProvisioningObstacles:
    """Return the nodes on which a volume for the claim cannot be provisioned, by reason.

    Raises:
        QuantityError: if the size of the claim or of a capacity is invalid.
    """
    storage_class = storage.classes.get(get_claim_class(claim), StorageClass())
    no_nodes = np.zeros(len(nodes), dtype=np.bool_)
    if storage_class.provisioner in _NO_PROVISIONER:
        return ProvisioningObstacles(~no_nodes, no_nodes)
    is_outside = ~mask_topologies(storage_class.allowed_topologies or (), columns)[nodes]
    size = get_requested_size(claim)
    if size is None or not _is_capacity_tracked(storage_class, storage):
        return ProvisioningObstacles(is_outside, no_nodes)
    return ProvisioningObstacles(
        is_outside, ~is_outside & ~_has_enough_capacity(storage_class, size, storage, columns)[nodes]
    )


def mask_topologies(terms: Sequence[TopologySelectorTerm], columns: NodeColumns) -> Mask:
    """Return a mask of the nodes in one of a class's topologies; all nodes without any."""
    if not terms:
        return _mask_all(columns)
    selector_terms = [
        NodeSelectorTerm(
            [
                SelectorRequirement(expression.key, "In", expression.values)
                for expression in term.match_label_expressions or ()
            ]
        )
        for term in terms
    ]
    return match_selector(NodeSelector(selector_terms), columns)


def _is_capacity_tracked(storage_class: StorageClass, storage: StorageIndex) -> bool:
    """Return whether the driver publishes its free capacity."""
    driver = storage.drivers.get(storage_class.provisioner, CsiDriver())
    return bool((driver.spec or CsiDriverSpec()).storage_capacity)


def _has_enough_capacity(
    storage_class: StorageClass, size: Quantity, storage: StorageIndex, columns: NodeColumns
) -> Mask:
    """Return a mask of the nodes with access to a segment that has enough capacity."""
    reachable = np.zeros(columns.size, dtype=np.bool_)
    name = (storage_class.metadata or ObjectMeta()).name
    for capacity in storage.list_capacities():
        if capacity.storage_class_name == name and _is_large_enough(capacity, size):
            reachable |= mask_segment(capacity.node_topology, columns)
    return reachable


def _is_large_enough(capacity: CsiStorageCapacity, size: Quantity) -> bool:
    largest, remaining = bytes(capacity.maximum_volume_size), bytes(capacity.capacity)
    limit = remaining if largest in _ABSENT else largest
    return limit not in _ABSENT and Quantity.from_json(limit).value() >= size.value()


def mask_segment(segment: LabelSelector | None, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes in a segment of the cluster; no nodes without one."""
    if segment is None:
        return ~_mask_all(columns)
    try:
        conditions = parse_selector(segment).conditions
    except SelectorError:
        return ~_mask_all(columns)
    requirements = [
        SelectorRequirement(condition.key, condition.operator, sorted(condition.values))
        for condition in conditions or ()
    ]
    return (
        match_selector(NodeSelector([NodeSelectorTerm(requirements)]), columns) if requirements else _mask_all(columns)
    )
