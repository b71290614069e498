"""framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go, and CH nodedeclaredfeatures/features."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import Json, get_spec, get_status
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable


class NodeDeclaredFeatures(Plugin):
    """The features that a pod requires and a node must declare."""

    name = "NodeDeclaredFeatures"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement NodeDeclaredFeatures.PreFilter."""
        return None, SUCCESS if _infer_features(pod.pod) else SKIP

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement NodeDeclaredFeatures.Filter."""
        if _infer_features(pod.pod) <= set(get_status(node.node).get("declaredFeatures") or []):
            return SUCCESS
        return unresolvable("node(s) didn't match Pod's required features")


def _infer_features(pod: Json) -> set[str]:
    """Implement InferForPodScheduling."""
    spec, needed = get_spec(pod), set()
    containers = (spec.get("containers") or []) + (spec.get("initContainers") or [])
    actions = [rule.get("action") for each in containers for rule in each.get("restartPolicyRules") or []]
    if "RestartAllContainers" in actions:
        needed.add("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return needed
