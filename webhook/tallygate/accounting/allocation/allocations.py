"""Allocated devices: those that claims have, and those that a search finds for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tallygate.accounting.allocation.planned_requests import AllocationError
from tallygate.accounting.allocation.published_devices import AllocatableDevice, AllocatableSlice
from tallygate.accounting.devices.consumed_capacity import Amounts
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.quantity import Quantity
from tallygate.objects.devices import AllocationResult, DeviceAllocation, ResourceClaim
from tallygate.objects.devices import DeviceResult as StoredResult
from tallygate.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement

_ZERO = Quantity.from_int(0)
_ASSUMED = "assumed"  # in place of a share ID and of a time, which are not read


class AllocatedState:
    """The devices that claims have, changed by one device at a time; for one thread at a time.

    `whole` and `shared` have the number of claims by device, `consumed` what these consume of a shared device.
    `changed` are the devices that were taken or given back, until a reader clears it.
    """

    def __init__(self) -> None:
        self.whole: dict[DeviceId, int] = {}
        self.shared: dict[DeviceId, int] = {}
        self.consumed: dict[DeviceId, dict[str, Quantity]] = {}
        self.changed: set[DeviceId] = set()

    def has(self, device: DeviceId) -> bool:
        """Return whether a claim has the device or a part of it."""
        return device in self.whole or device in self.shared

    def take(self, device: DeviceId, consumed: Amounts | None = None) -> None:
        """Add a device of a claim; one that is shared comes with what the claim consumes of it, also nothing."""
        self._count(device, consumed, 1)

    def give_back(self, device: DeviceId, consumed: Amounts | None = None) -> None:
        """Remove a device of a claim, as it was taken."""
        self._count(device, consumed, -1)

    def _count(self, device: DeviceId, consumed: Amounts | None, change: int) -> None:
        counts = self.whole if consumed is None else self.shared
        total = counts.get(device, 0) + change
        if total:
            counts[device] = total
        else:
            del counts[device]
        self.changed.add(device)
        if consumed:
            sums = self.consumed.setdefault(device, {})
            for name, amount in consumed.items():
                sums[name] = sums.get(name, _ZERO) + (amount if change > 0 else -amount)
        if device not in self.shared:
            self.consumed.pop(device, None)


class ChosenDevice(NamedTuple):
    """One allocated device: the name of its request, and what it consumes of a shared one."""

    request: str
    device: DeviceId
    has_admin_access: bool
    is_shared: bool
    consumed: Amounts

    def format_consumed(self) -> dict[str, str]:
        """Return what the device consumes by capacity, as the API server stores it.

        It reads the text of the scheduler as a new quantity: the format is that of this text, not that of the step by
        which the scheduler rounded, as in `3G` for the 3000000000 of a step of 1Gi.
        """
        return {name: Quantity.parse(amount.text).text for name, amount in self.consumed.items()}


class Allocation(NamedTuple):
    """The devices of one claim, and the nodes from which they can be reached; None for all nodes."""

    results: tuple[ChosenDevice, ...]
    node_selector: NodeSelector | None

    def to_status(self) -> AllocationResult:
        results = [
            StoredResult(
                result.request,
                *result.device,
                admin_access=result.has_admin_access or None,
                consumed_capacity=result.format_consumed() or None,
                share_id=_ASSUMED if result.is_shared else None,
            )
            for result in self.results
        ]
        return AllocationResult(DeviceAllocation(results), self.node_selector, _ASSUMED)


def create_node_selector(
    claim: ResourceClaim, taken: Iterable[tuple[AllocatableSlice, AllocatableDevice]], node: str
) -> NodeSelector | None:
    """Return the nodes from which all these devices can be reached; None for all nodes.

    Raises:
        AllocationError: if a device has a selector with several terms.
    """
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for published, device in taken:
        nodes = device.content.nodes if published.has_nodes_by_device else published.nodes
        if nodes.name or device.content.binds_to_node:
            term = NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", [node])])
            return NodeSelector([term])
        terms = (nodes.selector.node_selector_terms if nodes.selector else None) or ()
        if len(terms) > 1:
            name = (claim.metadata.name if claim.metadata else None) or ""
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {name}: {problem}")
        for one in terms:
            _add_new(one.match_fields or (), fields)
            _add_new(one.match_expressions or (), expressions)
    if not fields and not expressions:
        return None
    return NodeSelector([NodeSelectorTerm(match_expressions=expressions or None, match_fields=fields or None)])


def _add_new(requirements: Iterable[SelectorRequirement], known: list[SelectorRequirement]) -> None:
    for requirement in requirements:
        key = requirement.key, requirement.operator, frozenset(requirement.values or ())
        if not any(key == (other.key, other.operator, frozenset(other.values or ())) for other in known):
            known.append(requirement)
