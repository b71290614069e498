"""Amounts of resources in the status of a node, as their text and by their managers."""

import msgspec

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.core import ResourceList
from tallygate.objects.owned_nodes import OwnedNode

KUBELET = "kubelet"
"""The field manager of a kubelet: the first word of its user agent."""


def format_stored(amounts: ResourceList, name: str) -> str | None:
    """Return the amount of a resource as the node has it, or None."""
    raw = amounts.get(name)
    return None if raw is None else str(msgspec.json.decode(raw))


def is_amount(text: str | None, amount: int) -> bool:
    """Return whether a text of a node is this amount."""
    try:
        return text is not None and Quantity.parse(text) == Quantity.from_int(amount)
    except QuantityError:
        return False


def floor_amount(text: str | None) -> int:
    """Return the amount of a text in whole units, 0 if it is missing or no quantity."""
    try:
        return 0 if text is None else max(Quantity.parse(text).floor(), 0)
    except QuantityError:
        return 0


def is_published_by_plugin(node: OwnedNode, name: str) -> bool:
    """Return whether a device plugin publishes a resource of a node: its kubelet owns the amount, which is not 0.

    A kubelet that owns a capacity of 0 has reset it, as it does for a node without device plugins
    (updateDefaultResources in pkg/kubelet/kubelet_node_status.go, v1.36), or its device plugin is missing. One that
    owns allocatable alone only follows the capacity.
    """
    stored = format_stored(node.capacity, name)
    return stored is not None and not is_amount(stored, 0) and KUBELET in node.list_managers(name)
