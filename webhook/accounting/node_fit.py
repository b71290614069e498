"""Whether a pod's request fits beside others on one node.

Source: fitsRequest in pkg/scheduler/framework/plugins/noderesources/fit.go and Resource in
pkg/scheduler/framework/types.go, v1.36. Not modelled here: extended resources that a DeviceClass hands over to dynamic
resource allocation, and names that the plugin is configured to ignore.
"""

from collections.abc import Collection
from dataclasses import dataclass

from webhook.accounting.amounts import Amounts, round_up_to_unit
from webhook.accounting.names import is_scheduler_scalar
from webhook.accounting.pod_requests import compute_pod_requests
from webhook.accounting.pod_resources import parse_resource_list
from webhook.objects.core import Node, Pod, PodSpec

_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What a node lacks, in the scheduler's units: milli-cpu, else whole units.

    `never`: the request alone is more than the node has, so that no other pod's leaving helps.
    """

    resource: str
    requested: int
    used: int
    allocatable: int
    unresolvable: bool

    @property
    def free(self) -> int:
        """What is left of it; negative where more is used than there is."""
        return self.allocatable - self.used

    @property
    def short(self) -> int:
        """How much more there would have to be."""
        return self.requested - self.free

    @property
    def reason(self) -> str:
        """The scheduler's words."""
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


def find_shortfalls(pod: Pod, node: Node, pods: Collection[Pod]) -> tuple[Shortfall, ...]:
    """Everything a node lacks for a pod beside the others on it; empty when it fits.

    Only `status.allocatable` is looked at; absent, it is what capacity is. What the scheduler keeps no account of
    (`foo`, `requests.example.com/gpu`) is passed over.

    Raises:
        QuantityError: a quantity anywhere in them is none.
    """
    allocatable, used = parse_allocatable(node), sum_used(pods)
    requested = {name: asked for name, asked in compute_scheduler_requests(pod).items() if asked > 0}
    shortfalls = [
        _find_shortfall(name, asked, used.get(name, 0), allocatable.get(name, 0)) for name, asked in requested.items()
    ]
    pods_shortfall = _find_shortfall("pods", 1, len(pods), allocatable.get("pods", 0))
    pods_shortfalls = (
        [Shortfall("pods", 1, pods_shortfall.used, pods_shortfall.allocatable, unresolvable=False)]
        if pods_shortfall
        else []
    )
    return (*pods_shortfalls, *[each for each in shortfalls if each])


def compute_scheduler_requests(pod: Pod) -> Amounts:
    """What the scheduler counts of a pod that is not on a node yet."""
    return _select_scheduler_resources(compute_pod_requests(pod.spec or PodSpec()).amounts)


def compute_scheduler_requests_on_node(pod: Pod) -> Amounts:
    """What the scheduler counts of a pod on a node: of one that is being resized, the largest that it may have."""
    return _select_scheduler_resources(compute_pod_requests(pod.spec or PodSpec(), pod.status).amounts)


def sum_used(pods: Collection[Pod]) -> Amounts:
    """What pods on a node use together, each rounded up by itself."""
    used = Amounts()
    for pod in pods:
        used += compute_pod_requests(pod.spec or PodSpec(), pod.status).amounts
    return used


def parse_allocatable(node: Node) -> Amounts:
    """What a node has for pods."""
    if node.status is None:
        return Amounts()
    resource_list = node.status.capacity if node.status.allocatable is None else node.status.allocatable
    return Amounts(
        {name: round_up_to_unit(name, quantity) for name, quantity in parse_resource_list(resource_list).items()}
    )


def _select_scheduler_resources(amounts: Amounts) -> Amounts:
    return Amounts(
        {name: amount for name, amount in amounts.items() if name in _COMPUTE_RESOURCES or is_scheduler_scalar(name)}
    )


def _find_shortfall(name: str, requested: int, used: int, allocatable: int) -> Shortfall | None:
    if requested <= allocatable - used:
        return None
    return Shortfall(name, requested, used, allocatable, unresolvable=requested > allocatable)
