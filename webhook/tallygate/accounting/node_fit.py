"""The fit of a pod's request besides other pods on one node, and the devices that the node cannot give.

Source: fitsRequest in pkg/scheduler/framework/plugins/noderesources/fit.go and Resource in
pkg/scheduler/framework/types.go, v1.36. Not modelled here: extended resources that a DeviceClass maps to dynamic
resource allocation, and names that the plugin is configured to ignore.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tallygate.accounting.amounts import Amounts, round_up_to_unit
from tallygate.accounting.names import is_extended, is_scheduler_scalar
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.pod_resources import parse_resource_list
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.core import Node, Pod, PodSpec
from tallygate.objects.scheduling import NodeCondition, SchedulingNodeStatus

_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_MAX_LISTED = 5
_READY = "Ready"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The shortfall of one resource on a node, in the scheduler's units: milli-cpu, else whole units.

    `unresolvable` is True if the request alone exceeds the allocatable amount, so that the removal of no pod helps.
    """

    resource: str
    requested: int
    used: int
    allocatable: int
    unresolvable: bool

    @property
    def free(self) -> int:
        """The allocatable amount minus the used one; negative if more is used than allocatable."""
        return self.allocatable - self.used

    @property
    def short(self) -> int:
        """The free amount that is missing for the request."""
        return self.requested - self.free

    @property
    def reason(self) -> str:
        """The reason in the scheduler's words."""
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


def find_shortfalls(pod: Pod, node: Node, pods: Collection[Pod]) -> tuple[Shortfall, ...]:
    """Return the shortfalls of a node for a pod besides the other pods on it; empty if the pod fits.

    Only `status.allocatable` is read; if it is absent, capacity takes its place. Resources that the scheduler does not
    count (`foo`, `requests.example.com/gpu`) are ignored.

    Raises:
        QuantityError: if a quantity of the pod, the node or the other pods is invalid.
    """
    allocatable, used = parse_allocatable(node), sum_used(pods)
    requested = {name: amount for name, amount in compute_scheduler_requests(pod).items() if amount > 0}
    shortfalls = [
        _find_shortfall(name, amount, used.get(name, 0), allocatable.get(name, 0)) for name, amount in requested.items()
    ]
    pods_shortfall = _find_shortfall("pods", 1, len(pods), allocatable.get("pods", 0))
    pods_shortfalls = (
        [Shortfall("pods", 1, pods_shortfall.used, pods_shortfall.allocatable, unresolvable=False)]
        if pods_shortfall
        else []
    )
    return (*pods_shortfalls, *[shortfall for shortfall in shortfalls if shortfall])


def compute_scheduler_requests(pod: Pod) -> Amounts:
    """Return the amounts that the scheduler counts for a pod that is not on a node yet."""
    return select_scheduler_resources(compute_pod_requests(pod.spec or PodSpec()).amounts)


def compute_scheduler_requests_on_node(pod: Pod) -> Amounts:
    """Return the amounts that the scheduler counts for a pod on a node; during a resize the largest possible."""
    return select_scheduler_resources(compute_pod_requests(pod.spec or PodSpec(), pod.status).amounts)


def sum_used(pods: Collection[Pod]) -> Amounts:
    """Return the amounts that the pods on a node use together, each rounded up by itself."""
    used = Amounts()
    for pod in pods:
        used += compute_pod_requests(pod.spec or PodSpec(), pod.status).amounts
    return used


def parse_allocatable(node: Node) -> Amounts:
    """Return the allocatable amounts of a node, or its capacity if it has none."""
    if node.status is None:
        return Amounts()
    resource_list = node.status.capacity if node.status.allocatable is None else node.status.allocatable
    return Amounts(
        {name: round_up_to_unit(name, quantity) for name, quantity in parse_resource_list(resource_list).items()}
    )


def list_unready(status: SchedulingNodeStatus | None) -> list[NodeCondition]:
    """Return the condition `Ready` of a node that is not ready: false, or unknown since its kubelet reports nothing.

    A node without the condition counts as ready, as one that was written by hand.
    """
    conditions = (status.conditions if status else None) or ()
    return [condition for condition in conditions if condition.type == _READY and condition.status != "True"]


@dataclass(frozen=True, slots=True)
class UnhealthyDevices:
    """The unhealthy devices of one resource of a node: their number, and the capacity of the node.

    The kubelet counts such devices in the capacity, and not in the allocatable amount (GetCapacity in
    pkg/kubelet/cm/devicemanager/manager.go, v1.36). They may become healthy at any time.
    """

    node: str
    resource: str
    unhealthy: int
    capacity: int

    def __str__(self) -> str:
        return f"{self.unhealthy} of {self.capacity} {self.resource} unhealthy on {self.node}"

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain data."""
        return {"node": self.node, "resource": self.resource, "unhealthy": self.unhealthy, "capacity": self.capacity}


def count_unhealthy(node: Node) -> Amounts:
    """Return the numbers of the unhealthy devices of a node, by extended resource.

    A resource that has no allocatable amount at all is left out: the kubelet has not seen it yet. So is a quantity that
    cannot be read: the scheduler reads no capacity.
    """
    return Amounts({devices.resource: devices.unhealthy for devices in iterate_unhealthy("", node)})


def iterate_unhealthy(name: str, node: Node) -> Iterator[UnhealthyDevices]:
    """Yield the unhealthy devices of a node of this name, as `count_unhealthy`."""
    capacity, allocatable = (node.status.capacity, node.status.allocatable) if node.status else (None, None)
    if not capacity or not allocatable:
        return
    resources = [
        resource
        for resource, quantity in capacity.items()
        if resource in allocatable and quantity != allocatable[resource] and is_extended(resource)
    ]
    try:
        total, usable = (
            parse_resource_list({resource: amounts[resource] for resource in resources})
            for amounts in (capacity, allocatable)
        )
    except QuantityError:
        return
    for resource in resources:
        amount = round_up_to_unit(resource, total[resource])
        if (unhealthy := amount - round_up_to_unit(resource, usable[resource])) > 0:
            yield UnhealthyDevices(name, resource, unhealthy, amount)


def format_unhealthy(unhealthy: Sequence[UnhealthyDevices]) -> str:
    """Return unhealthy devices as text: the first five nodes, and the number of the others; empty without any."""
    more = len(unhealthy) - _MAX_LISTED
    others = f", and on {more} more" if more > 0 else ""
    return f"{', '.join(map(str, unhealthy[:_MAX_LISTED]))}{others}"


def select_scheduler_resources(amounts: Amounts) -> Amounts:
    return Amounts(
        {name: amount for name, amount in amounts.items() if name in _COMPUTE_RESOURCES or is_scheduler_scalar(name)}
    )


def _find_shortfall(name: str, requested: int, used: int, allocatable: int) -> Shortfall | None:
    if requested <= allocatable - used:
        return None
    return Shortfall(name, requested, used, allocatable, unresolvable=requested > allocatable)
