"""Limits that are percentages of a capacity: their amounts, and what of them is not known.

How much capacity there is comes from elsewhere (`tallygate.cluster`): here it is a value for each cap and name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts, format_amount, round_down_to_unit
from tallygate.accounting.charge import compute_hard_limits
from tallygate.accounting.quantity import Quantity
from tallygate.policy.cap_limits import CapLimit, PercentLimit, Rounding
from tallygate.policy.times import format_time


class Capacity(NamedTuple):
    """The capacity of a counted name in the unit of its amounts: thousandths of cpu, bytes, else whole units.

    `later` is a smaller capacity that counts from the time `falls_at` on, if there is one now.
    """

    amount: int
    later: int | None = None
    falls_at: datetime | None = None


CapCapacities = Mapping[str, Mapping[str, Capacity]]
"""The capacities by the name of a cap and the counted name; a name without one has no capacity that is known."""

NO_CAPACITIES: CapCapacities = MappingProxyType({})
NO_CAPACITY: Mapping[str, Capacity] = MappingProxyType({})
_NO_SHARES: Mapping[str, "CapacityShare"] = MappingProxyType({})
_ANY_CAPACITY = 10**30
"""A capacity beyond that of any cluster, in each unit: it is not known how many nodes will come."""


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """The limit of one name as a share of a capacity; `later` is the one after a fall that does not act yet.

    `most` is the largest limit by any capacity.
    """

    percent: PercentLimit
    capacity: Capacity
    limit: int
    later: int | None
    most: int

    def describe(self, name: str) -> str:
        """Return the percentage and the capacity, as in `25% of 64`, and a fall that does not act yet.

        A bound that decides in the place of the percentage is named: `25% of 64, at most 8`.
        """
        share = f"{self.percent} of {format_amount(name, self.capacity.amount)}{self._describe_bound(name)}"
        if self.later is None or self.capacity.falls_at is None:
            return share
        return f"{share}, from {format_time(self.capacity.falls_at)} {format_amount(name, self.later)}"

    def _describe_bound(self, name: str) -> str:
        by_percent = _compute_percent(self.percent, self.capacity.amount)
        if self.limit == by_percent:
            return ""
        return f", at {'most' if self.limit < by_percent else 'least'} {format_amount(name, self.limit)}"


class ResolvedLimits(NamedTuple):
    """The amounts of limits, the shares of those that are percentages, and the names whose limit is not known."""

    amounts: Amounts
    shares: Mapping[str, CapacityShare]
    unknown: frozenset[str]


def resolve_limits(limits: Mapping[str, CapLimit], capacities: Mapping[str, Capacity]) -> ResolvedLimits:
    """Return the amounts of limits by the capacities of their names.

    A name that no capacity is known of has no amount: it is unknown, and never taken for 0.
    """
    fixed = {name: limit for name, limit in limits.items() if isinstance(limit, Quantity)}
    if len(fixed) == len(limits):
        return ResolvedLimits(compute_hard_limits(fixed), _NO_SHARES, frozenset())
    shares: dict[str, CapacityShare] = {}
    for name, limit in limits.items():
        if isinstance(limit, PercentLimit) and (capacity := capacities.get(name)) is not None:
            now = _compute_share(name, limit, capacity.amount)
            later = None if capacity.later is None else _compute_share(name, limit, capacity.later)
            most = _compute_share(name, limit, _ANY_CAPACITY)
            shares[name] = CapacityShare(limit, capacity, now, None if later == now else later, most)
    amounts = {**compute_hard_limits(fixed), **{name: share.limit for name, share in shares.items()}}
    unknown = limits.keys() - amounts.keys()
    return ResolvedLimits(Amounts(amounts), MappingProxyType(shares), frozenset(unknown))


def _compute_share(name: str, limit: PercentLimit, capacity: int) -> int:
    """Return the share within its bounds; `atMost` counts before `atLeast`."""
    share = _compute_percent(limit, capacity)
    if limit.at_least is not None:
        share = max(share, round_down_to_unit(name, limit.at_least))
    return share if limit.at_most is None else min(share, round_down_to_unit(name, limit.at_most))


def _compute_percent(limit: PercentLimit, capacity: int) -> int:
    """Return the share without its bounds."""
    return limit.percent.compute_share(capacity, rounds_up=limit.rounding is Rounding.UP)
