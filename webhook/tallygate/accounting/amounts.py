"""Amounts: a number of each resource, as ints in the scheduler's units.

cpu is in thousandths (milli-cpu), every other resource in whole units (bytes for memory), as in the scheduler's own
account (pkg/scheduler/framework/types.go, v1.36). Absence has two meanings, so there are two comparisons: a missing
limit is unlimited (`Amounts.find_excess`), a missing capacity is zero (`Amounts.find_shortfall`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Never

from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import Format

_BYTE_PREFIXES = tuple(
    prefix + name
    for prefix in ("", LIMITS_PREFIX, REQUESTS_PREFIX, LIMITS_PREFIX + REQUESTS_PREFIX)
    for name in ("memory", "ephemeral-storage", "hugepages-")
)
_MEBI = 1 << 20
_CPU_NAMES = frozenset({"cpu", LIMITS_PREFIX + "cpu", REQUESTS_PREFIX + "cpu"})


def is_milli(name: str) -> bool:
    """Return whether the unit of a name is a thousandth: cpu, by itself or as a key of a quota."""
    return name in _CPU_NAMES


def round_up_to_unit(name: str, quantity: Quantity) -> int:
    """Return a requested quantity, rounded up to the unit."""
    return quantity.milli() if is_milli(name) else quantity.value()


def round_down_to_unit(name: str, quantity: Quantity) -> int:
    """Return the quantity of a cap, minimum or maximum, rounded down to the unit: half a free GPU counts as zero."""
    return quantity.floor_milli() if is_milli(name) else quantity.floor()


def format_amount(name: str, amount: int) -> str:
    """Return an amount as a person would write it: `1500m` cpu, `64Gi` memory, `3000` GPUs."""
    if is_milli(name):
        return Quantity(amount, -3).canonical
    if name.startswith(_BYTE_PREFIXES) or (amount >= _MEBI and "/" not in name):  # a sum of capacities is named freely
        return Quantity(amount, 0, Format.BINARY_SI).canonical
    return str(amount)


class Amounts(dict[str, int]):
    """An immutable mapping from resource name to amount. A name that is not in it is absent, which is not zero.

    A dict, since every create under a cap reads it a hundred times; every method that would change it raises TypeError.
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # it never changes
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Amounts({super().__repr__()})"

    def __reduce__(self) -> tuple[type[Amounts], tuple[dict[str, int]]]:
        return Amounts, (dict(self),)

    def _reject_change(self, *_: Any, **__: Any) -> Never:
        raise TypeError("amounts do not change")

    __setitem__ = __delitem__ = __ior__ = _reject_change
    clear = pop = popitem = setdefault = update = _reject_change

    def __add__(self, other: Mapping[str, int]) -> Amounts:
        """Return the sum by name; a name absent on one side counts as zero there."""
        if not other:
            return self
        total = dict(self)
        for name, amount in other.items():
            total[name] = total.get(name, 0) + amount
        return Amounts(total)

    def __sub__(self, other: Mapping[str, int]) -> Amounts:
        """Return the difference by name; a name absent on one side counts as zero there. It may be negative."""
        if not other:
            return self
        difference = dict(self)
        for name, amount in other.items():
            difference[name] = difference.get(name, 0) - amount
        return Amounts(difference)

    def merge_max(self, amounts: Mapping[str, int]) -> Amounts:
        """Return the larger of both by name; a name that only one side has keeps its amount."""
        larger = {name: max(amount, self.get(name, amount)) for name, amount in amounts.items()}
        return Amounts({**self, **larger})

    def find_excess(self, limits: Mapping[str, int]) -> Amounts:
        """Return the excess over each limit. A missing limit is unlimited; empty means that no limit is exceeded."""
        return Amounts(
            {name: amount - limit for name, amount in self.items() if amount > (limit := limits.get(name, amount))}
        )

    def find_shortfall(self, capacity: Mapping[str, int]) -> Amounts:
        """Return the shortfall of each capacity. A missing capacity is zero; empty means that all suffice."""
        shortfall = {}
        for name, amount in self.items():
            available = capacity.get(name, 0)
            if amount > available:
                shortfall[name] = amount - available
        return Amounts(shortfall)


NO_AMOUNTS = Amounts()

_MAX_SHARED_AMOUNTS = 4096
_MAX_SHARED_LENGTH = 1024  # characters of all names: no user can fill the memory with long ones


def share_amounts(amounts: Amounts) -> Amounts:
    """Return the amounts that stand for all equal ones: many groups of pods request the same."""
    return _share(amounts) if sum(map(len, amounts)) <= _MAX_SHARED_LENGTH else amounts


@lru_cache(maxsize=_MAX_SHARED_AMOUNTS)
def _share(amounts: Amounts) -> Amounts:
    return amounts
