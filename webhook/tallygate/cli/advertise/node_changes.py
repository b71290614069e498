"""The change of one node that a command asks for, and the reasons for which it is refused."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tallygate.accounting.published_amounts import KUBELET, format_stored, is_amount
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.state.kubernetes.node_usage import NodeUsage

FIELD_MANAGER = "tallygate-advertise"
"""The field manager of both commands."""

_MAX_PODS = 10


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The permissions that a user gives in addition to the amounts."""

    below_use: bool = False
    force_conflicts: bool = False


@dataclass(frozen=True, slots=True)
class AmountChange:
    """The change of one resource of a node: amounts as the node has them, or None.

    A resource to withdraw has no `wanted` amount. `used` is the amount that the pods of the node use.
    """

    name: str
    capacity: str | None
    allocatable: str | None
    wanted: int | None
    used: int
    is_owned: bool

    @property
    def is_needed(self) -> bool:
        """Whether the node differs from what is wanted, or another manager may change it."""
        if self.wanted is None:
            return self.capacity is not None or self.allocatable is not None
        return not self.is_owned or not is_amount(self.capacity, self.wanted) or not self.is_allocatable

    @property
    def is_allocatable(self) -> bool:
        """Whether the node already has the wanted amount for pods."""
        return self.allocatable is None if self.wanted is None else is_amount(self.allocatable, self.wanted)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The changes of one version of a node, and the reasons for which they are refused."""

    node: OwnedNode
    amounts: tuple[AmountChange, ...]
    refusals: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[AmountChange, ...]:
        """The amounts that have to be written."""
        return tuple(amount for amount in self.amounts if amount.is_needed)


def plan_change(
    node: OwnedNode, wanted: Mapping[str, int | None], usage: NodeUsage, options: ChangeOptions
) -> NodeChange:
    """Return the change of a node to the wanted amounts, None for a resource to withdraw."""
    amounts = tuple(
        AmountChange(
            name,
            format_stored(node.capacity, name),
            format_stored(node.allocatable, name),
            amount,
            usage.get_used(node.name, name),
            all(FIELD_MANAGER in node.list_managers(name, allocatable=each) for each in (False, True)),
        )
        for name, amount in wanted.items()
    )
    refusals = tuple(text for amount in amounts for text in _list_refusals(node, amount, usage, options))
    return NodeChange(node, amounts, refusals)


def _list_refusals(node: OwnedNode, change: AmountChange, usage: NodeUsage, options: ChangeOptions) -> Iterator[str]:
    subject = f"node {node.name}: {change.name}"
    others = _list_others(node, change)
    if KUBELET in others:
        yield (
            f"{subject}: a device plugin publishes {change.capacity} of it, and its kubelet would overwrite any other "
            "amount at its next sync: configure the plugin"
        )
    elif others and not options.force_conflicts:
        named = ", ".join(f'"{other}"' for other in sorted(others))
        yield (
            f"{subject}: the amount {change.capacity or change.allocatable} is managed by {named}: change it there, or "
            "take it over with --force-conflicts"
        )
    if change.used > (change.wanted or 0) and not options.below_use:
        pods = usage.list_pods(node.name, change.name)
        rest = f" and {len(pods) - _MAX_PODS} more" if len(pods) > _MAX_PODS else ""
        yield (
            f"{subject}: its pods use {change.used}, and {change.wanted or 0} would be left: "
            f"{', '.join(map(str, pods[:_MAX_PODS]))}{rest}. Wait until they end, or use --below-use: they go on, but "
            "a kubelet that restarts may end them"
        )


def _list_others(node: OwnedNode, change: AmountChange) -> Collection[str]:
    """Return the managers whose amount the change would overwrite or remove.

    A kubelet that owns allocatable alone only follows the capacity. One that owns a capacity of 0 has reset it, as it
    does for a node without device plugins (updateDefaultResources in pkg/kubelet/kubelet_node_status.go, v1.36), or
    its device plugin is missing.
    """
    owners = set[str]()
    wanted = change.wanted
    if change.capacity is not None and (wanted is None or not is_amount(change.capacity, wanted)):
        owners |= node.list_managers(change.name)
        if is_amount(change.capacity, 0):
            owners.discard(KUBELET)
    if change.allocatable is not None and (wanted is None or not is_amount(change.allocatable, wanted)):
        owners |= node.list_managers(change.name, allocatable=True) - {KUBELET}
    return owners - {FIELD_MANAGER}
