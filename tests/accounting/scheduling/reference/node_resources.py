"""framework/plugins/noderesources/fit.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.device_classes import device_class_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit(Plugin):
    """What a node can give, less what the pods on it request."""

    name = "NodeResourcesFit"

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Fit.Filter: unresolvable when the node could not hold the pod alone."""
        too_many = len(node.pods) + 1 > node.allocatable.get("pods", 0)
        lacking = [each for each in pod.requests if _is_lacking(cycle, pod, node, each)]
        reasons = ["Too many pods"] * too_many + [f"Insufficient {each}" for each in lacking]
        never = any(pod.requests[each] > node.allocatable.get(each, 0) for each in lacking)
        if not reasons:
            return SUCCESS
        return Status(Code.UNRESOLVABLE if never else Code.UNSCHEDULABLE, tuple(reasons))


def _is_lacking(cycle: Cycle, pod: PodInfo, node: NodeInfo, resource: str) -> bool:
    """`fitsRequest`, for one resource."""
    asked, has = pod.requests[resource], node.allocatable.get(resource, 0)
    if asked <= 0 or _is_for_devices(cycle, node, resource):
        return False
    return asked > has - node.used(resource)


def _is_for_devices(cycle: Cycle, node: NodeInfo, resource: str) -> bool:
    """shouldDelegateResourceToDRA: a device class stands for the name, and the node has none of it."""
    if resource in _COMPUTE or node.allocatable.get(resource, 0) > 0:
        return False
    return device_class_of(cycle.cluster, resource) is not None
