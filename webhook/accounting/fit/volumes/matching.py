"""Volumes that are there already, for claims that wait for a pod.

Source: findMatchingVolumes in plugins/volumebinding/binder.go and FindMatchingVolume in component-helpers
storage/volume/pv_helpers.go, v1.36. Of volumes alike the scheduler takes any; here it is the first by name.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class, get_volume_class
from webhook.accounting.fit.rejection import Mask, NodeIndices
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.claims import get_claim_meta, get_claim_spec
from webhook.accounting.pod_resources import parse_resource_list
from webhook.accounting.quantity import Quantity
from webhook.accounting.selectors import parse_selector
from webhook.objects.core import ResourceList
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeClaimResources,
    VolumePhase,
    VolumeSpec,
)

_ZERO = Quantity.from_int(0)
_FILESYSTEM = "Filesystem"
_STORAGE = "storage"

_ChosenVolumes = NDArray[np.intp]
"""Which volume each node takes, by its number in the order of preference; -1 for none."""


def sort_by_size(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Claims in the order in which volumes are looked for: the smallest first."""
    return sorted(claims, key=lambda claim: get_requested_size(claim) or _ZERO)


def get_requested_size(claim: PersistentVolumeClaim) -> Quantity | None:
    """How much room a claim asks for; None when it does not say.

    Raises:
        QuantityError: what it asks for is no quantity.
    """
    return _read_storage((get_claim_spec(claim).resources or VolumeClaimResources()).requests)


def find_unmatched_nodes(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> Iterator[Mask]:
    """For each of these claims, in their order, the nodes that reach no volume for it that the claims before left.

    Raises:
        QuantityError: the size of a claim or a volume is no quantity.
        SelectorError: a claim's selector has a requirement that is none.
    """
    taken_volumes: dict[str, Mask] = {}
    for claim in claims:
        volumes = [
            each for each in _list_volumes_of_class(storage, get_claim_class(claim)) if _is_compatible(claim, each)
        ]
        choice = _choose_volumes(claim, volumes, taken_volumes, columns, nodes)
        for number in np.unique(choice[choice >= 0]).tolist():
            name = _get_name(volumes[number])
            taken_volumes[name] = taken_volumes.get(name, np.zeros(len(nodes), dtype=np.bool_)) | (choice == number)
        yield choice < 0


def _choose_volumes(
    claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    taken_volumes: dict[str, Mask],
    columns: NodeColumns,
    nodes: NodeIndices,
) -> _ChosenVolumes:
    """The volume meant for the claim, where it is reached; else the smallest that is free and reached."""
    choice: _ChosenVolumes = np.full(len(nodes), -1, dtype=np.intp)
    no_nodes = np.zeros(len(nodes), dtype=np.bool_)
    is_seeking = ~no_nodes
    pre_bound = next((number for number, each in enumerate(volumes) if _is_bound_to(each, claim)), None)
    if pre_bound is not None:
        is_seeking = taken_volumes.get(_get_name(volumes[pre_bound]), no_nodes)
        choice[reach.mask_reaching_volume(volumes[pre_bound], columns)[nodes] & ~is_seeking] = pre_bound
    for number, volume in enumerate(volumes):
        if number != pre_bound and is_seeking.any() and _is_available(claim, volume):
            free = is_seeking & (choice < 0) & ~taken_volumes.get(_get_name(volume), no_nodes)
            choice[reach.mask_reaching_volume(volume, columns)[nodes] & free] = number
    return choice


def _list_volumes_of_class(storage: StorageIndex, name: str) -> list[PersistentVolume]:
    """The volumes of a class, smallest first."""
    volumes = storage.get_class_volumes(name).values()
    return sorted(volumes, key=lambda volume: (_get_size(volume), _get_name(volume)))


def _is_compatible(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """What must be true of a volume meant for the claim as of any other."""
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
    """IsVolumeBoundToClaim."""
    claim_reference, meta = _get_spec(volume).claim_ref, get_claim_meta(claim)
    if claim_reference is None or (claim_reference.name, claim_reference.namespace) != (
        meta.name or "",
        meta.namespace or "",
    ):
        return False
    return not claim_reference.uid or claim_reference.uid == (meta.uid or "")


def _is_available(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """What must be true of a volume that is nobody's yet."""
    claim_spec, volume_spec = get_claim_spec(claim), _get_spec(volume)
    if (volume.status or VolumePhase()).phase != "Available" or get_volume_class(volume) != get_claim_class(claim):
        return False
    labels = (volume.metadata or ObjectMeta()).labels or {}
    if claim_spec.selector is not None and not parse_selector(claim_spec.selector).matches(labels):
        return False
    return set(claim_spec.access_modes or ()) <= set(volume_spec.access_modes or ())


def _get_spec(volume: PersistentVolume) -> VolumeSpec:
    return volume.spec or VolumeSpec()


def _get_name(volume: PersistentVolume) -> str:
    return (volume.metadata or ObjectMeta()).name or ""


def _get_size(volume: PersistentVolume) -> Quantity:
    return _read_storage(_get_spec(volume).capacity) or _ZERO


def _read_storage(resources: ResourceList | None) -> Quantity | None:
    return parse_resource_list(resources).get(_STORAGE)
