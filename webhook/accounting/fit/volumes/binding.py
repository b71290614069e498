"""Nodes on which every claim of a pod has its volume, finds one, or gets one made.

Source: FindPodVolumes in plugins/volumebinding/binder.go, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.claims import meta_of, named, sort, spec_of
from webhook.accounting.fit.volumes.making import hindered
from webhook.accounting.fit.volumes.matching import by_size, unmatched
from webhook.objects.storage import PersistentVolumeClaim

_UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
_UNFOUND = "node(s) didn't find available persistent volumes to bind"
_FULL = "node(s) did not have enough free storage"
_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_CHOSEN = "volume.kubernetes.io/selected-node"


def unbindable(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that do not reach a volume the pod has, or on which it finds none and none can be made.

    Raises:
        QuantityError: the size of a claim, a volume or a capacity is no quantity.
        SelectorError: a claim's selector has a requirement that is none.
    """
    storage = cluster.storage
    if storage is None or not named(pod):
        return
    claims = sort(pod, storage)
    unreached, gone = _of_bound(claims.bound, storage, cluster.nodes, places)
    unfound, full = _of_waiting(claims.waiting, storage, cluster.nodes, places)
    yield for_good(_UNREACHED, unreached)
    yield for_good(_UNFOUND, unfound)
    yield for_good(_FULL, full)
    yield for_good(_GONE, gone)


def _of_bound(
    claims: Iterable[PersistentVolumeClaim], storage: StorageIndex, nodes: NodeColumns, places: Places
) -> tuple[Mask, Mask]:
    """Nodes that do not reach a volume, and nodes that wait for one that is gone: what each finds first."""
    unreached, gone = np.zeros(len(places), dtype=np.bool_), np.zeros(len(places), dtype=np.bool_)
    for claim in claims:
        volume = storage.volumes.get(spec_of(claim).volume_name or "")
        if volume is None:
            return unreached, ~unreached
        unreached |= ~reach.of_volume(volume, nodes)[places]
    return unreached, gone


def _of_waiting(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, nodes: NodeColumns, places: Places
) -> tuple[Mask, Mask]:
    """Nodes on which a claim finds no volume and nobody makes one, and nodes without room for one: what is met first.

    A claim that is promised to a node gets its volume made there, and nowhere else.
    """
    promised = [claim for claim in claims if _CHOSEN in (meta_of(claim).annotations or {})]
    others = by_size(claim for claim in claims if _CHOSEN not in (meta_of(claim).annotations or {}))
    elsewhere = _elsewhere(promised, nodes, places)
    unmade, full = elsewhere.copy(), np.zeros(len(places), dtype=np.bool_)
    needed = [np.ones(len(places), dtype=np.bool_) for _ in promised]
    needed.extend(unmatched(others, storage, nodes, places))
    for claim, where in zip([*promised, *others], needed, strict=True):
        asked = where & ~unmade & ~full
        if asked.any():
            hindrance = hindered(claim, storage, nodes, places)
            unmade, full = unmade | (asked & hindrance.unmade), full | (asked & hindrance.full)
    return unmade, full


def _elsewhere(promised: Iterable[PersistentVolumeClaim], nodes: NodeColumns, places: Places) -> Mask:
    """All nodes but the one that each of these claims is promised to."""
    elsewhere = np.zeros(len(places), dtype=np.bool_)
    for claim in promised:
        place = nodes.find_index((meta_of(claim).annotations or {}).get(_CHOSEN, ""))
        elsewhere |= places != (-1 if place is None else place)
    return elsewhere
