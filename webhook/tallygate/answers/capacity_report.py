"""The amounts that caps grant beside those of nodes, for each resource: overcommitted, stranded and unreachable ones.

Caps may count the same namespaces. So what they grant is no sum of limits: it is the most that all namespaces with a
cap may have together. A ledger grants its limit, or what the ledgers within it grant if that is less and each of
its namespaces has one of these. A ledger is within another one if all its namespaces are among those of the other one.
Ledgers that have only a part of their namespaces in common are added up, so that the amount may then be too large, and
never too small. A cap that counts only some pods bounds no namespace: it grants its limit where no other ledger does.

The free amounts of ledgers are added up in the same way. What is free on nodes beyond that is *stranded*: no pod under
a cap may use it. What is free under caps beyond the free amounts of nodes is *unreachable*: no node has it.

A namespace may have guarantees of several caps. What is guaranteed to it is the largest of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount, is_milli
from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.answers.columns import UNKNOWN, Column, Columns
from tallygate.answers.usage_report import LedgerUsage, find_guarantees
from tallygate.cluster.cluster_state import ClusterState
from tallygate.policy.model import PodFilter
from tallygate.state.ledger.guarantees import Guarantees
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_EVERY_POD: Final = PodFilter()


class Grant(NamedTuple):
    """A limit of a ledger for the namespaces `members`; `amount` is the limit or what is free of it, None if unknown.

    It is `partial` if it counts only some pods of these namespaces.
    """

    members: frozenset[str]
    amount: int | None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class CapacityRecord:
    """One resource: what nodes have and have free, and what caps grant and have free; None if it is not known.

    `capacity` and `free_on_nodes` are those of all nodes, also of those that take no pods. `guaranteed` is the sum of
    what namespaces have for themselves. `without_cap` is the number of namespaces that no cap limits under this name.
    """

    name: str
    capacity: int | None
    granted: int | None
    guaranteed: int | None
    free_on_nodes: int | None
    free_in_caps: int | None
    without_cap: int

    @property
    def committed_percent(self) -> int | None:
        """The granted amount in percent of the capacity, rounded up: above 100 more is granted than there is."""
        return None if not self.capacity or self.granted is None else -(-self.granted * 100 // self.capacity)

    @property
    def stranded(self) -> int | None:
        """The amount that is free on nodes, and that no pod under a cap may use."""
        if self.free_on_nodes is None or self.free_in_caps is None:
            return None
        return max(self.free_on_nodes - self.free_in_caps, 0)

    @property
    def unreachable(self) -> int | None:
        """The amount that is free in caps, and that no node has free."""
        if self.free_on_nodes is None or self.free_in_caps is None:
            return None
        return max(self.free_in_caps - self.free_on_nodes, 0)

    def describe(self) -> str:
        """Return the remarks on guarantees that nodes lack and on namespaces without a cap, empty without any."""
        remarks = []
        missing = 0 if self.capacity is None or self.guaranteed is None else self.guaranteed - self.capacity
        if missing > 0:
            remarks.append(f"{format_amount(self.name, missing)} more guaranteed than nodes have")
        if self.without_cap:
            remarks.append(f"{self.without_cap} namespace{'s' * (self.without_cap != 1)} without a cap may use more")
        return "; ".join(remarks)


class AmountsOfNodes(Protocol):
    """The sums over the nodes of a cluster, by resource; None if no node has had any."""

    def sum_allocatable(self, resource: str) -> int | None:
        """Return what all nodes have."""
        ...

    def sum_free(self, resource: str) -> int | None:
        """Return what pods leave free."""
        ...


class CapacityList:
    """The limits of ledgers by resource, and what is free of them."""

    def __init__(self) -> None:
        self._hard: dict[str, list[Grant]] = {}
        self._free: dict[str, list[Grant]] = {}
        self._guaranteed: dict[str, Amounts] = {}
        self._unknown_guaranteed: set[str] = set()

    def add(self, cap: ActiveCap, members: frozenset[str], name: str, hard: int | None, free: int | None) -> None:
        """Add the limit of a ledger under a name for its member namespaces; None is not known."""
        is_partial = cap.definition.pods != _EVERY_POD
        if hard is None and any(name in entry.amounts for entry in cap.definition.guarantee):
            self._unknown_guaranteed.add(name)
        self._hard.setdefault(name, []).append(Grant(members, hard, is_partial))
        amount = None if free is None else max(free, 0)
        self._free.setdefault(name, []).append(Grant(members, amount, is_partial))

    def add_guarantees(self, guarantees: Guarantees) -> None:
        """Add the guarantees of a ledger."""
        for namespace, amounts in guarantees.amounts.items():
            self._guaranteed[namespace] = self._guaranteed.get(namespace, NO_AMOUNTS).merge_max(amounts)

    def compute(self, nodes: AmountsOfNodes, namespaces: Iterable[str]) -> list[CapacityRecord]:
        """Return the records of all resources with a hard limit, by name; `namespaces` are all of the cluster."""
        every = frozenset(namespaces)
        return [
            CapacityRecord(
                name,
                find_capacity(nodes, name),
                sum_grants(grants),
                self._sum_guaranteed(name),
                None if name.startswith(LIMITS_PREFIX) else nodes.sum_free(name.removeprefix(REQUESTS_PREFIX)),
                sum_grants(self._free[name]),
                len(every.difference(*(grant.members for grant in grants if not grant.is_partial))),
            )
            for name, grants in sorted(self._hard.items())
        ]

    def _sum_guaranteed(self, name: str) -> int | None:
        if name in self._unknown_guaranteed:
            return None
        return sum(amounts.get(name, 0) for amounts in self._guaranteed.values())


def list_capacities(state: ClusterState, ledgers: Iterable[LedgerUsage]) -> list[CapacityRecord]:
    """Return the records of the ledgers of a report, by resource, of a state with columns."""
    listed = CapacityList()
    for chosen, lines in ledgers:
        cap = chosen.active_cap
        listed.add_guarantees(find_guarantees(state, chosen, state.find_ledger(chosen.key)))
        for line in lines:
            if line.hard is not None or line.name in cap.limits.unknown:
                listed.add(cap, chosen.members, line.name, line.hard, line.free)
    return listed.compute(state.require_columns(), [record.name for record in state.namespaces.list_records()])


def find_capacity(nodes: AmountsOfNodes, name: str) -> int | None:
    """Return what all nodes have under a name of a cap; None if no node advertises it."""
    return nodes.sum_allocatable(name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX))


def list_ledger_capacities(
    state: ClusterState, caps: CapIndex, ledgers: Mapping[LedgerKey, Ledger], nodes: AmountsOfNodes
) -> list[CapacityRecord]:
    """Return the records of stored ledgers, by resource, for a gate; a ledger that it has not seen grants nothing."""
    listed = CapacityList()
    for cap in state.list_caps(caps):
        for key in state.list_keys(cap):
            ledger, members = ledgers.get(key), state.get_membership(cap, key).names
            if ledger is None:
                continue
            charged = ledger.compute_charged()
            listed.add_guarantees(ledger.guarantees)
            for name in cap.limits.unknown - ledger.hard.keys():
                listed.add(cap, members, name, None, None)
            for name, hard in ledger.hard.items():
                listed.add(cap, members, name, hard, None if ledger.initializer else hard - charged.get(name, 0))
    return listed.compute(nodes, [record.name for record in state.namespaces.list_records()])


def sum_grants(grants: Sequence[Grant]) -> int | None:
    """Return the most that the namespaces of limits may have together; None if an amount is unknown.

    A limit without namespaces grants nothing.
    """
    if any(grant.amount is None for grant in grants):
        return None
    whole = sorted(
        (grant for grant in grants if grant.members and not grant.is_partial),
        key=lambda grant: -len(grant.members),
    )
    containing: dict[str, list[int]] = {}
    within: dict[int | None, list[int]] = {}
    for number, grant in enumerate(whole):
        within.setdefault(_find_smallest(whole, containing, grant), []).append(number)
        for name in grant.members:
            containing.setdefault(name, []).append(number)
    sums: dict[int, int] = {}
    for number in reversed(range(len(whole))):  # the smallest first, so that all within a limit are known
        sums[number] = _limit_sum(whole, within.get(number, ()), sums, whole[number])
    partial = (
        grant.amount or 0
        for grant in grants
        if grant.is_partial and grant.members and _find_smallest(whole, containing, grant) is None
    )
    return sum(sums[number] for number in within.get(None, ())) + sum(partial)


def _find_smallest(whole: Sequence[Grant], containing: Mapping[str, list[int]], grant: Grant) -> int | None:
    """Return the number of the smallest limit that has all namespaces of another one."""
    known = containing.get(min(grant.members), ())
    return next((number for number in reversed(known) if whole[number].members >= grant.members), None)


def _limit_sum(whole: Sequence[Grant], numbers: Sequence[int], sums: Mapping[int, int], grant: Grant) -> int:
    amount = grant.amount or 0
    if frozenset().union(*(whole[number].members for number in numbers)) != grant.members:
        return amount
    return min(amount, sum(sums[number] for number in numbers))


def _create_amount(heading: str, key: str, attribute: str) -> Column[CapacityRecord]:
    def get(record: CapacityRecord) -> Any:
        return getattr(record, attribute)

    def format_value(record: CapacityRecord) -> str:
        amount = get(record)
        return UNKNOWN if amount is None else format_amount(record.name, amount)

    return Column(heading, key, get, format_value)


def _format_percent(record: CapacityRecord) -> str:
    percent = record.committed_percent
    return UNKNOWN if percent is None else f"{percent}%"


CAPACITIES = Columns[CapacityRecord](
    Column("RESOURCE", "resource", lambda record: record.name),
    Column("", "unit", lambda record: "milli" if is_milli(record.name) else "whole"),
    _create_amount("CAPACITY", "capacity", "capacity"),
    _create_amount("GRANTED", "granted", "granted"),
    Column("COMMITTED", "committedPercent", lambda record: record.committed_percent, _format_percent),
    _create_amount("GUARANTEED", "guaranteed", "guaranteed"),
    _create_amount("FREE ON NODES", "freeOnNodes", "free_on_nodes"),
    _create_amount("FREE IN CAPS", "freeInCaps", "free_in_caps"),
    _create_amount("STRANDED", "stranded", "stranded"),
    _create_amount("UNREACHABLE", "unreachable", "unreachable"),
    Column("", "namespacesWithoutCap", lambda record: record.without_cap),
    Column("NOTE", "", lambda record: record.describe()),
)
"""The columns of `tallygate usage --capacity`."""
