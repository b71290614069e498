"""How plugins are run (framework/runtime/framework.go), in the order of apis/config/v1/default_plugins.go."""

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
from tests.accounting.scheduling.reference.objects import priority_of, status_of, uid_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.pod_topology_spread import PodTopologySpread
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status, failed
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
class PreFiltered:
    """What PreFilter says of all nodes together: which of them may do (None for all), and which plugins chose."""

    status: Status
    names: set[str] | None = None
    plugins: frozenset[str] = frozenset()


def run_pre_filters(cycle: Cycle, pod: PodInfo) -> PreFiltered:
    """RunPreFilterPlugins.

    In this profile none of them fails there, none says Unschedulable, and NodeAffinity alone chooses nodes, and some.
    """
    found = PreFiltered(SUCCESS)
    for plugin in PLUGINS:
        chosen, status = plugin.pre_filter(cycle, pod)
        if status.code is Code.SKIP:
            cycle.skipped.add(plugin.name)
        elif not status.is_success:
            return PreFiltered(status)
        elif chosen is not None:
            found = PreFiltered(SUCCESS, chosen, frozenset({plugin.name}))
    return found


def run_filters(cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
    """RunFilterPlugins: the first that says no is all that is said of a node."""
    for plugin in (each for each in PLUGINS if each.name not in cycle.skipped):
        status = plugin.filter(cycle, pod, node)
        if status.code is Code.ERROR:
            return failed(f'running "{plugin.name}" filter plugin: {status.message}')
        if not status.is_success:
            return replace(status, plugin=plugin.name)
    return SUCCESS


def run_filters_with_nominated(cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
    """RunFilterPluginsWithNominatedPods, addGENominatedPods: with those that come first there, then without them."""
    nominated = [each for each in cycle.cluster.nominated if _comes_first(each, pod, node)]
    if nominated:
        with_them, crowded = cycle.clone(), node.snapshot()
        for each in nominated:
            crowded.add(each)
            count(with_them, pod, each, crowded, 1)
        status = run_filters(with_them, pod, crowded)
        if not status.is_success:
            return status
    return run_filters(cycle, pod, node)


def _comes_first(other: PodInfo, pod: PodInfo, node: NodeInfo) -> bool:
    """Whether another pod is nominated for the node, and as important at least."""
    is_for_node = status_of(other.pod).get("nominatedNodeName") == node.name
    return is_for_node and priority_of(other.pod) >= priority_of(pod.pod) and uid_of(other.pod) != uid_of(pod.pod)


def count(cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
    """RunPreFilterExtensionAddPod (by 1) and RunPreFilterExtensionRemovePod (by -1)."""
    for plugin in (each for each in PLUGINS if each.name not in cycle.skipped):
        plugin.count(cycle, pod, other, node, by)
