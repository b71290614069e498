"""framework/plugins/nodeunschedulable/node_unschedulable.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import get_spec
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Status, unresolvable
from tests.accounting.scheduling.reference.taints import is_tolerated

_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NodeUnschedulable(Plugin):
    """Cordoned nodes, which only accept pods that tolerate the cordon's taint."""

    name = "NodeUnschedulable"

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement NodeUnschedulable.Filter."""
        if not get_spec(node.node).get("unschedulable") or is_tolerated(_TAINT, pod.pod):
            return SUCCESS
        return unresolvable("node(s) were unschedulable")
