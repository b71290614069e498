"""The publication of amounts on nodes: one node is compared with what it is to have, and written where it differs.

`NodePublisher` keeps what policies give to nodes; the command `tallygate advertise` compares a node once with the
amounts of its arguments, and asks before it takes anything from pods or from other field managers.

A name that is no longer wanted, or less of it, stays at the amount that the pods of the node use until they end. The
amount of a device plugin is never overwritten. An amount that another client changes again and again is corrected ever
more seldom, and each such name is a problem with a text.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from tallygate.accounting.published_amounts import (
    KUBELET,
    floor_amount,
    format_stored,
    is_amount,
    is_published_by_plugin,
)
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.policy.node_resources import NodeResource, compute_node_amounts

_FREE_CORRECTIONS: Final = 3
_WINDOW_SECONDS: Final = 600.0
"""The time without a correction after which the next one is made at once again."""
_FIRST_PAUSE_SECONDS: Final = 60.0
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_MAX_DOUBLINGS: Final = 10


class NodeWriter(Protocol):
    """The writer of amounts of nodes. It raises TallygateError."""

    def apply(self, node: OwnedNode, amounts: Mapping[str, int], *, without: Collection[str] = ()) -> OwnedNode | None:
        """Set amounts and remove names of one version of a node; return None if the node was changed since."""
        ...


UsageReader = Callable[[str, Collection[str]], Mapping[str, int]]
"""Returns what the pods of a node use of some resources at present; it raises TallygateError."""


@dataclass(frozen=True, slots=True)
class AmountChange:
    """The change of one resource of a node: amounts as the node has them, or None.

    A resource to remove has no `wanted` amount. `is_owned` means that the field manager owns both stored amounts,
    `is_published_by_plugin` that the kubelet would write another amount again, and `others` are the managers whose
    amount would be overwritten or removed.
    """

    name: str
    capacity: str | None
    allocatable: str | None
    wanted: int | None
    is_owned: bool
    is_published_by_plugin: bool
    others: frozenset[str]

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


def compare_amounts(node: OwnedNode, wanted: Mapping[str, int | None], manager: str) -> tuple[AmountChange, ...]:
    """Return the change of each resource of a node to its wanted amount, None for one to remove."""
    return tuple(_compare_amount(node, name, amount, manager) for name, amount in wanted.items())


def _compare_amount(node: OwnedNode, name: str, wanted: int | None, manager: str) -> AmountChange:
    """Compare one resource.

    A kubelet that owns allocatable alone only follows the capacity, and one that owns a capacity of 0 has reset it: it
    is no other manager, unless a device plugin publishes the amount.
    """
    capacity, allocatable = format_stored(node.capacity, name), format_stored(node.allocatable, name)
    managers = node.list_managers(name), node.list_managers(name, allocatable=True)
    owners = set[str]()
    for text, section_managers in zip((capacity, allocatable), managers, strict=True):
        if text is not None and (wanted is None or not is_amount(text, wanted)):
            owners |= section_managers
    return AmountChange(
        name,
        capacity,
        allocatable,
        wanted,
        is_owned=all(manager in section_managers for section_managers in managers),
        is_published_by_plugin=is_published_by_plugin(node, name),
        others=frozenset(owners - {KUBELET, manager}),
    )


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The result for one node.

    `published` is the number of names that it has as wanted, `retained` the used amount of each name that stays because
    pods use it, and `problems` the text of each name that is left as it is. `writes` is the number of writes, of which
    `is_conflict` means that the node was changed meanwhile. `reads` is the number of lists of pods.
    """

    published: int = 0
    retained: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    writes: int = 0
    reads: int = 0
    is_conflict: bool = False

    @property
    def calls(self) -> int:
        """The number of requests to the API server."""
        return self.writes + self.reads


@dataclass(slots=True)
class _Correction:
    """The last written amount of a name, None if it was removed, and the corrections since the last quiet time."""

    amount: int | None
    count: int = 0
    last_at: float = 0.0

    def find_pause_end(self) -> float:
        """Return the monotonic time before which no further correction is made."""
        if self.count < _FREE_CORRECTIONS:
            return self.last_at
        doublings = min(self.count - _FREE_CORRECTIONS, _MAX_DOUBLINGS)
        return self.last_at + min(_FIRST_PAUSE_SECONDS * 2.0**doublings, _LONGEST_PAUSE_SECONDS)


class NodePublisher:
    """The publisher of one replica; one thread uses it. `manager` is the field manager of the writer."""

    def __init__(
        self, writer: NodeWriter, read_used: UsageReader, manager: str, monotonic: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._read_used = read_used
        self._manager = manager
        self._monotonic = monotonic
        self._corrections: dict[str, dict[str, _Correction]] = {}

    def forget(self, uid: str) -> None:
        """Remove what is known about a node that was deleted."""
        self._corrections.pop(uid, None)

    def reconcile(self, node: OwnedNode, definitions: Sequence[NodeResource]) -> NodeResult:
        """Write a node where it differs from the definitions, at most once.

        Raises:
            TallygateError: if the pods of the node cannot be listed, or the node cannot be written.
        """
        wanted = compute_node_amounts(node, definitions)
        problems = dict(wanted.problems)
        removed = dict.fromkeys(self._list_owned(node) - wanted.amounts.keys() - problems.keys())
        changes = list[AmountChange]()
        for change in compare_amounts(node, {**wanted.amounts, **removed}, self._manager):
            if change.is_published_by_plugin and change.wanted is not None:
                text = f"a device plugin publishes {change.capacity} of it: configure the plugin, or remove it here"
                problems[change.name] = text
            else:
                changes.append(change)
        lowered = [change.name for change in changes if floor_amount(change.capacity) > (change.wanted or 0)]
        used = self._read_used(node.name, lowered) if lowered else {}
        retained = {
            change.name: used[change.name] for change in changes if used.get(change.name, 0) > (change.wanted or 0)
        }
        due = dict[str, int | None]()
        for change in changes:
            kept = retained.get(change.name)
            target = change if kept is None else replace(change, wanted=min(kept, floor_amount(change.capacity)))
            if target.is_needed:
                due[target.name] = target.wanted
        for name in list(due):
            if pause := self._find_pause(node.metadata.uid, name, due[name]):
                problems[name] = pause
                del due[name]
        is_conflict = bool(due) and not self._write(node, due)
        published = sum(name not in retained and name not in due and name not in problems for name in wanted.amounts)
        written = 0 if is_conflict else sum(name in due and name not in retained for name in wanted.amounts)
        return NodeResult(published + written, retained, problems, int(bool(due)), int(bool(lowered)), is_conflict)

    def _write(self, node: OwnedNode, due: Mapping[str, int | None]) -> bool:
        amounts = {name: amount for name, amount in due.items() if amount is not None}
        without = [name for name, amount in due.items() if amount is None]
        if self._writer.apply(node, amounts, without=without) is None:
            return False
        now = self._monotonic()
        known = self._corrections.setdefault(node.metadata.uid, {})
        for name, amount in due.items():
            previous = known.get(name)
            if previous is None or previous.amount != amount or now - previous.find_pause_end() > _WINDOW_SECONDS:
                known[name] = _Correction(amount, 0, now)
            else:
                previous.count, previous.last_at = previous.count + 1, now
        return True

    def _find_pause(self, uid: str, name: str, amount: int | None) -> str:
        """Return why a name is not corrected now, or an empty text."""
        known = self._corrections.get(uid, {}).get(name)
        if known is None or known.amount != amount or self._monotonic() >= known.find_pause_end():
            return ""
        seconds = known.find_pause_end() - self._monotonic()
        return (
            f"another client has changed it {known.count} times within {_WINDOW_SECONDS / 60:.0f} min after it was "
            f"published; the next correction is in {seconds:.0f} s: find the client in the managed fields of the node"
        )

    def _list_owned(self, node: OwnedNode) -> set[str]:
        return {name for part in (False, True) for name in node.list_applied(self._manager, allocatable=part)}
