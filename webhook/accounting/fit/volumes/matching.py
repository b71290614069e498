"""Volumes that are there already, for claims that wait for a pod.

Source: findMatchingVolumes in plugins/volumebinding/binder.go and FindMatchingVolume in component-helpers
storage/volume/pv_helpers.go, v1.36. Of volumes alike the scheduler takes any; here it is the first by name.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class, get_volume_class
from webhook.accounting.fit.rejection import Mask, Places
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.claims import meta_of, spec_of
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

_NONE = Quantity.from_int(0)
_FILES = "Filesystem"
_STORAGE = "storage"

_Choice = NDArray[np.intp]
"""Which volume each node takes, by its number in the order of preference; -1 for none."""


def by_size(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Claims in the order in which volumes are looked for: the smallest first."""
    return sorted(claims, key=lambda claim: asked_size(claim) or _NONE)


def asked_size(claim: PersistentVolumeClaim) -> Quantity | None:
    """How much room a claim asks for; None when it does not say.

    Raises:
        QuantityError: what it asks for is no quantity.
    """
    return _storage((spec_of(claim).resources or VolumeClaimResources()).requests)


def unmatched(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, nodes: NodeColumns, places: Places
) -> Iterator[Mask]:
    """For each of these claims, in their order, the nodes that reach no volume for it that the claims before left.

    Raises:
        QuantityError: the size of a claim or a volume is no quantity.
        SelectorError: a claim's selector has a requirement that is none.
    """
    taken: dict[str, Mask] = {}
    for claim in claims:
        volumes = [each for each in _ordered(storage, get_claim_class(claim)) if _may_hold(claim, each)]
        choice = _chosen(claim, volumes, taken, nodes, places)
        for number in np.unique(choice[choice >= 0]).tolist():
            name = _name(volumes[number])
            taken[name] = taken.get(name, np.zeros(len(places), dtype=np.bool_)) | (choice == number)
        yield choice < 0


def _chosen(
    claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    taken: dict[str, Mask],
    nodes: NodeColumns,
    places: Places,
) -> _Choice:
    """The volume meant for the claim, where it is reached; else the smallest that is free and reached."""
    choice: _Choice = np.full(len(places), -1, dtype=np.intp)
    nowhere = np.zeros(len(places), dtype=np.bool_)
    seeking = ~nowhere
    meant = next((number for number, each in enumerate(volumes) if _is_meant(each, claim)), None)
    if meant is not None:
        seeking = taken.get(_name(volumes[meant]), nowhere)
        choice[reach.of_volume(volumes[meant], nodes)[places] & ~seeking] = meant
    for number, volume in enumerate(volumes):
        if number != meant and seeking.any() and _is_free(claim, volume):
            free = seeking & (choice < 0) & ~taken.get(_name(volume), nowhere)
            choice[reach.of_volume(volume, nodes)[places] & free] = number
    return choice


def _ordered(storage: StorageIndex, name: str) -> list[PersistentVolume]:
    """The volumes of a class, smallest first."""
    volumes = storage.get_class_volumes(name).values()
    return sorted(volumes, key=lambda volume: (_size(volume), _name(volume)))


def _may_hold(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """What must be true of a volume meant for the claim as of any other."""
    asked, given = spec_of(claim), _spec(volume)
    if given.claim_ref is not None and not _is_meant(volume, claim):
        return False
    if _size(volume) < (asked_size(claim) or _NONE) or (volume.metadata or ObjectMeta()).deletion_timestamp:
        return False
    is_same_mode = (asked.volume_mode or _FILES) == (given.volume_mode or _FILES)
    return is_same_mode and (asked.volume_attributes_class_name or "") == (given.volume_attributes_class_name or "")


def _is_meant(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """IsVolumeBoundToClaim."""
    meant, meta = _spec(volume).claim_ref, meta_of(claim)
    if meant is None or (meant.name, meant.namespace) != (meta.name or "", meta.namespace or ""):
        return False
    return not meant.uid or meant.uid == (meta.uid or "")


def _is_free(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """What must be true of a volume that is nobody's yet."""
    asked, given = spec_of(claim), _spec(volume)
    if (volume.status or VolumePhase()).phase != "Available" or get_volume_class(volume) != get_claim_class(claim):
        return False
    labels = (volume.metadata or ObjectMeta()).labels or {}
    if asked.selector is not None and not parse_selector(asked.selector).matches(labels):
        return False
    return set(asked.access_modes or ()) <= set(given.access_modes or ())


def _spec(volume: PersistentVolume) -> VolumeSpec:
    return volume.spec or VolumeSpec()


def _name(volume: PersistentVolume) -> str:
    return (volume.metadata or ObjectMeta()).name or ""


def _size(volume: PersistentVolume) -> Quantity:
    return _storage(_spec(volume).capacity) or _NONE


def _storage(listed: ResourceList | None) -> Quantity | None:
    return parse_resource_list(listed).get(_STORAGE)
