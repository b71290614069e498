"""The plugin VolumeZone: zone and region labels of volumes.

Source: plugins/volumezone/volume_zone.go; LabelZonesToSet in k8s.io/cloud-provider volume/helpers/zones.go, v1.36. Only
named claims count there, not the claims of ephemeral volumes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.node_columns import NodeColumns
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.pod_claims import format_not_found, get_claim_spec, list_claim_refs
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.storage import PersistentVolume

_CURRENT_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ZONE_LABELS = (*_CURRENT_LABELS, *_CURRENT_LABELS.values())


class _Zone(NamedTuple):
    """A label that a node must have, and the values that it may have."""

    label: str
    values: frozenset[str]


def pre_filter_volume_zone(pod: IncomingPod, cluster: Cluster) -> str | None:
    """Return the reason why a pod fits no node: the first claim with a missing volume; else None."""
    if cluster.storage is None:
        return None
    for volume_name in _list_volume_names(pod, cluster):
        if volume_name not in cluster.storage.volumes:
            return format_not_found("persistentvolume", volume_name)
    return None


def filter_volume_zone(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes in another zone or region than a volume. Nodes without zone labels accept any volume."""
    zones = [zone for volume in _find_existing_volumes(pod, cluster) for zone in _list_required_zones(volume)]
    if zones:
        has_zone = np.zeros(len(nodes), dtype=np.bool_)
        for label in _ZONE_LABELS:
            has_zone |= _mask_label(cluster.nodes, label, nodes)
        is_outside = np.zeros(len(nodes), dtype=np.bool_)
        for zone in zones:
            is_outside |= ~_mask_zone(zone, cluster.nodes, nodes)
        yield mark_unresolvable("node(s) had no available volume zone", has_zone & is_outside)


def _list_volume_names(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    claims = cluster.storage.claims if cluster.storage else {}
    for ref in list_claim_refs(pod):
        claim = claims.get((pod.namespace, ref.name))
        if not ref.is_own and claim is not None and (name := get_claim_spec(claim).volume_name):
            yield name


def _find_existing_volumes(pod: IncomingPod, cluster: Cluster) -> Iterator[PersistentVolume]:
    volumes = cluster.storage.volumes if cluster.storage else {}
    for name in _list_volume_names(pod, cluster):
        if name in volumes:
            yield volumes[name]


def _list_required_zones(volume: PersistentVolume) -> Iterator[_Zone]:
    """Yield the zones that a volume's labels require; a label with an empty part requires none."""
    labels = (volume.metadata or ObjectMeta()).labels or {}
    for label in _ZONE_LABELS:
        values = [part.strip() for part in labels.get(label, "").split("__")]
        if all(values):
            yield _Zone(label, frozenset(values))


def _mask_zone(zone: _Zone, columns: NodeColumns, nodes: NodeIndices) -> Mask:
    """Return a mask of the nodes in a zone, by the label itself or, on nodes without it, by its current name."""
    is_labelled, matches = _mask_label(columns, zone.label, nodes), _mask_label(columns, zone.label, nodes, zone.values)
    current_label = _CURRENT_LABELS.get(zone.label)
    return (
        matches
        if current_label is None
        else matches | (~is_labelled & _mask_label(columns, current_label, nodes, zone.values))
    )


def _mask_label(columns: NodeColumns, label: str, nodes: NodeIndices, values: frozenset[str] | None = None) -> Mask:
    column = columns.find_label_column(label)
    if column is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    present: Mask = column.ids[nodes] >= 0 if values is None else column.mask_values(values)[nodes]
    return present
