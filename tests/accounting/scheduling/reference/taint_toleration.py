"""framework/plugins/tainttoleration/taint_toleration.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Status, unresolvable
from tests.accounting.scheduling.reference.taints import has_untolerated_taint


class TaintToleration(Plugin):
    """A node's taints, which reject pods without a toleration."""

    name = "TaintToleration"

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement TaintToleration.Filter."""
        if has_untolerated_taint(node.node, pod.pod):
            return unresolvable("node(s) had untolerated taint(s)")
        return SUCCESS
