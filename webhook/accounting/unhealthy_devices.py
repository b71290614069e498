"""Unhealthy devices of nodes: what a node has of an extended resource, and cannot give to pods.

The kubelet counts such devices in the capacity, and not in the allocatable amount (GetCapacity in
pkg/kubelet/cm/devicemanager/manager.go, v1.36). They may become healthy at any time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tallygate.webhook.accounting.amounts import Amounts, round_up_to_unit
from tallygate.webhook.accounting.names import is_extended
from tallygate.webhook.accounting.pod_resources import parse_resource_list
from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.objects.core import Node

_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class UnhealthyDevices:
    """The unhealthy devices of one resource of a node: their number, and the capacity of the node."""

    node: str
    resource: str
    unhealthy: int
    capacity: int

    def __str__(self) -> str:
        """Return the numbers with the resource and the node."""
        return f"{self.unhealthy} of {self.capacity} {self.resource} unhealthy on {self.node}"

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain data."""
        return {
            "node": self.node,
            "resource": self.resource,
            "unhealthy": self.unhealthy,
            "capacity": self.capacity,
        }


def count_unhealthy(node: Node) -> Amounts:
    """Return the numbers of the unhealthy devices of a node, by extended resource.

    A resource that has no allocatable amount at all is left out: the kubelet has not seen it yet. So is a quantity that
    cannot be read: the scheduler reads no capacity.
    """
    return Amounts({each.resource: each.unhealthy for each in iterate_unhealthy("", node)})


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
