"""framework/plugins/nodename/node_name.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import get_spec
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Status, unresolvable


class NodeName(Plugin):
    """The node name in a pod's spec."""

    name = "NodeName"

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement NodeName.Filter, Fits."""
        requested = get_spec(pod.pod).get("nodeName")
        if not requested or requested == node.name:
            return SUCCESS
        return unresolvable("node(s) didn't match the requested node name")
