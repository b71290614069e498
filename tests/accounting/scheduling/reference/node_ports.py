"""framework/plugins/nodeports/node_ports.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.ports import has_conflict, list_host_ports
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unschedulable


class NodePorts(Plugin):
    """Host ports, which one pod of a node can use."""

    name = "NodePorts"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement NodePorts.PreFilter."""
        return None, SUCCESS if list_host_ports(pod.pod) else SKIP

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement NodePorts.Filter, fitsPorts."""
        if any(has_conflict(each, node.used_ports) for each in list_host_ports(pod.pod)):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return SUCCESS
