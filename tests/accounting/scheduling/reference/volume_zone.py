"""framework/plugins/volumezone/volume_zone.go."""

from dataclasses import dataclass

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import get_labels, get_namespace, get_spec
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable
from tests.accounting.scheduling.reference.volume_restrictions import list_claim_names

_GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_GENERAL, *_GENERAL.values())


@dataclass(frozen=True, slots=True)
class _Topology:
    """pvTopology: a label of a volume, and the values that it allows."""

    key: str
    values: frozenset[str]


class _RejectedError(Exception):
    """The reason why no node is feasible."""


class VolumeZone(Plugin):
    """Zones and regions among the labels of volumes."""

    name = "VolumeZone"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement VolumeZone.PreFilter, getPVbyPod."""
        try:
            found = [
                _read_topologies(cycle.cluster, get_namespace(pod.pod), each) for each in list_claim_names(pod.pod)
            ]
        except _RejectedError as error:
            return None, unresolvable(str(error))
        topologies = [each for some in found for each in some]
        cycle.states[self.name] = topologies
        return None, SUCCESS if topologies else SKIP

    def filter(self, cycle: Cycle, _pod: PodInfo, node: NodeInfo) -> Status:
        """Implement VolumeZone.Filter; a node without any such label accepts every volume."""
        topologies: list[_Topology] = cycle.states[self.name]
        if not any(each in node.labels for each in _LABELS) or all(_is_in_topology(node, each) for each in topologies):
            return SUCCESS
        return unresolvable("node(s) had no available volume zone")


def _is_in_topology(node: NodeInfo, topology: _Topology) -> bool:
    """Return whether the node's label, under the volume's key or its newer name, has an allowed value."""
    general = node.labels.get(_GENERAL.get(topology.key, topology.key))
    return node.labels.get(topology.key, general) in topology.values


def _read_topologies(cluster: Cluster, namespace: str, name: str) -> list[_Topology]:
    """Implement `getPVbyPod`, for one claim. VolumeBinding has checked the claim before."""
    claim = cluster.find("PersistentVolumeClaim", name, namespace)
    volume_name = get_spec(claim or {}).get("volumeName")
    if not volume_name:
        return []
    volume = cluster.find("PersistentVolume", volume_name)
    if volume is None:
        raise _RejectedError(f'persistentvolume "{volume_name}" not found')
    read = [(key, _parse_zones(get_labels(volume)[key])) for key in _LABELS if key in get_labels(volume)]
    return [_Topology(key, zones) for key, zones in read if zones]


def _parse_zones(label: str) -> frozenset[str]:
    """Implement LabelZonesToSet in cloud-provider volume/helpers/zones.go; empty where it is an error."""
    zones = [each.strip() for each in label.split("__")]
    return frozenset(zones) if all(zones) else frozenset()
