"""Nodes on which every claim of a pod has its volume, finds one, or gets one made.

Source: FindPodVolumes in plugins/volumebinding/binder.go, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import FilterStatus, Mask, NodeIndices, mark_unresolvable
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.claims import get_claim_meta, get_claim_spec, list_claim_refs, sort_claims
from webhook.accounting.fit.volumes.making import find_provisioning_obstacles
from webhook.accounting.fit.volumes.matching import find_unmatched_nodes, sort_by_size
from webhook.objects.storage import PersistentVolumeClaim

_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
_VOLUME_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def filter_volume_binding(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes that do not reach a volume the pod has, or on which it finds none and none can be made.

    Raises:
        QuantityError: the size of a claim, a volume or a capacity is no quantity.
        SelectorError: a claim's selector has a requirement that is none.
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
    """Nodes that do not reach a volume, and nodes that wait for one that is gone: what each finds first."""
    unreachable, volume_missing = np.zeros(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
    for claim in claims:
        volume = storage.volumes.get(get_claim_spec(claim).volume_name or "")
        if volume is None:
            return unreachable, ~unreachable
        unreachable |= ~reach.mask_reaching_volume(volume, columns)[nodes]
    return unreachable, volume_missing


def _check_delayed_claims(
    claims: Sequence[PersistentVolumeClaim], storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> tuple[Mask, Mask]:
    """Nodes on which a claim finds no volume and nobody makes one, and nodes without room for one: what is met first.

    A claim that is promised to a node gets its volume made there, and nowhere else.
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


def _mask_not_selected(preselected: Iterable[PersistentVolumeClaim], columns: NodeColumns, nodes: NodeIndices) -> Mask:
    """All nodes but the one that each of these claims is promised to."""
    not_selected = np.zeros(len(nodes), dtype=np.bool_)
    for claim in preselected:
        node_index = columns.find_index((get_claim_meta(claim).annotations or {}).get(_SELECTED_NODE, ""))
        not_selected |= nodes != (-1 if node_index is None else node_index)
    return not_selected
