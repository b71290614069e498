"""framework/plugins/noderesources/fit.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.device_classes import find_device_class
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit(Plugin):
    """Allocatable resources of a node less the requests of its pods."""

    name = "NodeResourcesFit"

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement Fit.Filter: unresolvable when the pod does not fit the empty node."""
        too_many = len(node.pods) + 1 > node.allocatable.get("pods", 0)
        lacking = [each for each in pod.requests if _is_lacking(cycle, pod, node, each)]
        reasons = ["Too many pods"] * too_many + [f"Insufficient {each}" for each in lacking]
        never = any(pod.requests[each] > node.allocatable.get(each, 0) for each in lacking)
        if not reasons:
            return SUCCESS
        return Status(Code.UNRESOLVABLE if never else Code.UNSCHEDULABLE, tuple(reasons))


def _is_lacking(cycle: Cycle, pod: PodInfo, node: NodeInfo, resource: str) -> bool:
    """Implement `fitsRequest`, for one resource."""
    requested, capacity = pod.requests[resource], node.allocatable.get(resource, 0)
    if requested <= 0 or _is_for_devices(cycle, node, resource):
        return False
    return requested > capacity - node.get_used(resource)


def _is_for_devices(cycle: Cycle, node: NodeInfo, resource: str) -> bool:
    """Implement shouldDelegateResourceToDRA: a device class has the name, and the node does not advertise it."""
    if resource in _COMPUTE or node.allocatable.get(resource, 0) > 0:
        return False
    return find_device_class(cycle.cluster, resource) is not None
