"""Whether a pod's request fits beside others on one node.

Source: fitsRequest in pkg/scheduler/framework/plugins/noderesources/fit.go and Resource in
pkg/scheduler/framework/types.go, v1.36. Not modelled here: extended resources that a DeviceClass hands over to dynamic
resource allocation, and names that the plugin is configured to ignore.
"""

from collections.abc import Collection
from dataclasses import dataclass

from webhook.accounting.amounts import Amounts, amount
from webhook.accounting.asks import read_list
from webhook.accounting.names import is_scheduler_scalar
from webhook.accounting.requests import pod_requests
from webhook.objects.cluster import Node
from webhook.objects.pods import Pod, PodSpec

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Insufficient:
    """What a node lacks, in the scheduler's units: milli-cpu, else whole units.

    `never`: the request alone is more than the node has, so that no other pod's leaving helps.
    """

    resource: str
    requested: int
    used: int
    capacity: int
    never: bool

    @property
    def free(self) -> int:
        """What is left of it; negative where more is used than there is."""
        return self.capacity - self.used

    @property
    def short(self) -> int:
        """How much more there would have to be."""
        return self.requested - self.free

    @property
    def reason(self) -> str:
        """The scheduler's words."""
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


def insufficient(pod: Pod, node: Node, others: Collection[Pod]) -> tuple[Insufficient, ...]:
    """Everything a node lacks for a pod beside the others on it; empty when it fits.

    Only `status.allocatable` is looked at; absent, it is what capacity is. What the scheduler keeps no account of
    (`foo`, `requests.example.com/gpu`) is passed over.

    Raises:
        QuantityError: a quantity anywhere in them is none.
    """
    capacity, used = allocatable(node), used_by(others)
    requested = {name: asked for name, asked in counted(pod).items() if asked > 0}
    lacking = [_lack(name, asked, used.get(name, 0), capacity.get(name, 0)) for name, asked in requested.items()]
    full = _lack("pods", 1, len(others), capacity.get("pods", 0))
    crowded = [Insufficient("pods", 1, full.used, full.capacity, never=False)] if full else []
    return (*crowded, *[each for each in lacking if each])


def counted(pod: Pod) -> Amounts:
    """What the scheduler counts of a pod that is not on a node yet."""
    return _counted(pod_requests(pod.spec or PodSpec()).amounts)


def counted_on_node(pod: Pod) -> Amounts:
    """What the scheduler counts of a pod on a node: of one that is being resized, the largest that it may have."""
    return _counted(pod_requests(pod.spec or PodSpec(), pod.status).amounts)


def used_by(pods: Collection[Pod]) -> Amounts:
    """What pods on a node use together, each rounded up by itself."""
    used = Amounts()
    for pod in pods:
        used += pod_requests(pod.spec or PodSpec(), pod.status).amounts
    return used


def allocatable(node: Node) -> Amounts:
    """What a node has for pods."""
    if node.status is None:
        return Amounts()
    listed = node.status.capacity if node.status.allocatable is None else node.status.allocatable
    return Amounts({name: amount(name, quantity) for name, quantity in read_list(listed).items()})


def _counted(amounts: Amounts) -> Amounts:
    return Amounts({name: asked for name, asked in amounts.items() if name in _COMPUTE or is_scheduler_scalar(name)})


def _lack(name: str, asked: int, used: int, capacity: int) -> Insufficient | None:
    if asked <= capacity - used:
        return None
    return Insufficient(name, asked, used, capacity, never=asked > capacity)
