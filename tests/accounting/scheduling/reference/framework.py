"""Calls of the plugins (framework/runtime/framework.go), in the order of apis/config/v1/default_plugins.go."""

from dataclasses import dataclass, replace

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.dynamic_resources import DynamicResources
from tests.accounting.scheduling.reference.inter_pod_affinity import InterPodAffinity
from tests.accounting.scheduling.reference.node_affinity import NodeAffinity
from tests.accounting.scheduling.reference.node_declared_features import NodeDeclaredFeatures
from tests.accounting.scheduling.reference.node_name import NodeName
from tests.accounting.scheduling.reference.node_ports import NodePorts
from tests.accounting.scheduling.reference.node_resources import NodeResourcesFit
from tests.accounting.scheduling.reference.node_unschedulable import NodeUnschedulable
from tests.accounting.scheduling.reference.node_volume_limits import NodeVolumeLimits
from tests.accounting.scheduling.reference.objects import get_priority, get_status, get_uid
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.pod_topology_spread import PodTopologySpread
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status, error_status
from tests.accounting.scheduling.reference.taint_toleration import TaintToleration
from tests.accounting.scheduling.reference.volume_binding import VolumeBinding
from tests.accounting.scheduling.reference.volume_restrictions import VolumeRestrictions
from tests.accounting.scheduling.reference.volume_zone import VolumeZone

DYNAMIC_RESOURCES = DynamicResources()

PLUGINS: tuple[Plugin, ...] = (
    NodeUnschedulable(),
    NodeName(),
    TaintToleration(),
    NodeAffinity(),
    NodePorts(),
    NodeResourcesFit(),
    VolumeRestrictions(),
    NodeVolumeLimits(),
    VolumeBinding(),
    VolumeZone(),
    PodTopologySpread(),
    InterPodAffinity(),
    DYNAMIC_RESOURCES,
    NodeDeclaredFeatures(),
)


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The result of all PreFilter plugins: the eligible nodes (None for all), and the plugins that chose them."""

    status: Status
    names: set[str] | None = None
    plugins: frozenset[str] = frozenset()


def run_pre_filters(cycle: Cycle, pod: PodInfo) -> PreFilterResult:
    """Implement RunPreFilterPlugins.

    In this profile no plugin fails there or returns Unschedulable, and only NodeAffinity chooses nodes.
    """
    found = PreFilterResult(SUCCESS)
    for plugin in PLUGINS:
        chosen, status = plugin.pre_filter(cycle, pod)
        if status.code is Code.SKIP:
            cycle.skipped.add(plugin.name)
        elif not status.is_success:
            return PreFilterResult(status)
        elif chosen is not None:
            found = PreFilterResult(SUCCESS, chosen, frozenset({plugin.name}))
    return found


def run_filters(cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
    """Implement RunFilterPlugins: return the status of the first plugin that rejects the node."""
    for plugin in (each for each in PLUGINS if each.name not in cycle.skipped):
        status = plugin.filter(cycle, pod, node)
        if status.code is Code.ERROR:
            return error_status(f'running "{plugin.name}" filter plugin: {status.message}')
        if not status.is_success:
            return replace(status, plugin=plugin.name)
    return SUCCESS


def run_filters_with_nominated(cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
    """Implement RunFilterPluginsWithNominatedPods, addGENominatedPods: filter with nominated pods, then without."""
    nominated = [each for each in cycle.cluster.nominated if _has_precedence(each, pod, node)]
    if nominated:
        with_them, crowded = cycle.clone(), node.snapshot()
        for each in nominated:
            crowded.add(each)
            count(with_them, pod, each, crowded, 1)
        status = run_filters(with_them, pod, crowded)
        if not status.is_success:
            return status
    return run_filters(cycle, pod, node)


def _has_precedence(other: PodInfo, pod: PodInfo, node: NodeInfo) -> bool:
    """Return whether another pod is nominated for the node and has at least the same priority."""
    is_for_node = get_status(other.pod).get("nominatedNodeName") == node.name
    return is_for_node and get_priority(other.pod) >= get_priority(pod.pod) and get_uid(other.pod) != get_uid(pod.pod)


def count(cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
    """Implement RunPreFilterExtensionAddPod (by 1) and RunPreFilterExtensionRemovePod (by -1)."""
    for plugin in (each for each in PLUGINS if each.name not in cycle.skipped):
        plugin.count(cycle, pod, other, node, by)
