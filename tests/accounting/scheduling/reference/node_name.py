"""framework/plugins/nodename/node_name.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import spec_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Status, unresolvable


class NodeName(Plugin):
    """A pod that names its node goes there or nowhere."""

    name = "NodeName"

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """NodeName.Filter, Fits."""
        wanted = spec_of(pod.pod).get("nodeName")
        if not wanted or wanted == node.name:
            return SUCCESS
        return unresolvable("node(s) didn't match the requested node name")
