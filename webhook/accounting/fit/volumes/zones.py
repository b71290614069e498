"""Zones and regions that volumes are labelled with.

Source: plugins/volumezone/volume_zone.go; LabelZonesToSet in k8s.io/cloud-provider volume/helpers/zones.go, v1.36. Only
claims that are named count there, not those that are made for the pod.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good
from webhook.accounting.fit.volumes.claims import named, not_found, spec_of
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import PersistentVolume

_NOW = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_NOW, *_NOW.values())


class _Zone(NamedTuple):
    """A label that a node must have, and the values that it may have."""

    label: str
    values: frozenset[str]


def refusal(pod: Incoming, cluster: Cluster) -> str | None:
    """Why a pod cannot be placed: the first claim whose volume is not there."""
    if cluster.storage is None:
        return None
    for name in _volumes(pod, cluster):
        if name not in cluster.storage.volumes:
            return not_found("persistentvolume", name)
    return None


def apart(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes in another zone or region than a volume. Nodes that say nothing of either take any volume."""
    zones = [zone for volume in _found(pod, cluster) for zone in _zones(volume)]
    if zones:
        somewhere = np.zeros(len(places), dtype=np.bool_)
        for label in _LABELS:
            somewhere |= _values(cluster.nodes, label, places)
        elsewhere = np.zeros(len(places), dtype=np.bool_)
        for zone in zones:
            elsewhere |= ~_within(zone, cluster.nodes, places)
        yield for_good("node(s) had no available volume zone", somewhere & elsewhere)


def _volumes(pod: Incoming, cluster: Cluster) -> Iterator[str]:
    """The names of the volumes that a pod's claims have."""
    claims = cluster.storage.claims if cluster.storage else {}
    for each in named(pod):
        claim = claims.get((pod.namespace, each.name))
        if not each.is_own and claim is not None and (name := spec_of(claim).volume_name):
            yield name


def _found(pod: Incoming, cluster: Cluster) -> Iterator[PersistentVolume]:
    volumes = cluster.storage.volumes if cluster.storage else {}
    for name in _volumes(pod, cluster):
        if name in volumes:
            yield volumes[name]


def _zones(volume: PersistentVolume) -> Iterator[_Zone]:
    """What a volume's labels ask for; a list with an empty part says nothing."""
    labels = (volume.metadata or ObjectMeta()).labels or {}
    for label in _LABELS:
        values = [part.strip() for part in labels.get(label, "").split("__")]
        if all(values):
            yield _Zone(label, frozenset(values))


def _within(zone: _Zone, nodes: NodeColumns, places: Places) -> Mask:
    """Whether a node is in the zone by the label itself, or, where it lacks that one, by the label's present name."""
    has, matches = _values(nodes, zone.label, places), _values(nodes, zone.label, places, zone.values)
    now = _NOW.get(zone.label)
    return matches if now is None else matches | (~has & _values(nodes, now, places, zone.values))


def _values(nodes: NodeColumns, label: str, places: Places, values: frozenset[str] | None = None) -> Mask:
    """Which nodes have a label, with one of these values if they are given."""
    column = nodes.find_label_column(label)
    if column is None:
        return np.zeros(len(places), dtype=np.bool_)
    present: Mask = column.ids[places] >= 0 if values is None else column.mask_values(values)[places]
    return present
