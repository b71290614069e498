"""framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go, and CH nodedeclaredfeatures/features."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import Json, spec_of, status_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable


class NodeDeclaredFeatures(Plugin):
    """A node must declare the features that a pod cannot do without."""

    name = "NodeDeclaredFeatures"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """NodeDeclaredFeatures.PreFilter."""
        return None, SUCCESS if _needed(pod.pod) else SKIP

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """NodeDeclaredFeatures.Filter."""
        if _needed(pod.pod) <= set(status_of(node.node).get("declaredFeatures") or []):
            return SUCCESS
        return unresolvable("node(s) didn't match Pod's required features")


def _needed(pod: Json) -> set[str]:
    """InferForPodScheduling."""
    spec, needed = spec_of(pod), set()
    containers = (spec.get("containers") or []) + (spec.get("initContainers") or [])
    actions = [rule.get("action") for each in containers for rule in each.get("restartPolicyRules") or []]
    if "RestartAllContainers" in actions:
        needed.add("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return needed
