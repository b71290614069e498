"""framework/plugins/nodeports/node_ports.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.ports import conflicts, host_ports
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unschedulable


class NodePorts(Plugin):
    """Ports of the host are taken once."""

    name = "NodePorts"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """NodePorts.PreFilter."""
        return None, SUCCESS if host_ports(pod.pod) else SKIP

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """NodePorts.Filter, fitsPorts."""
        if any(conflicts(each, node.used_ports) for each in host_ports(pod.pod)):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return SUCCESS
