"""Amounts: how much of each resource, as ints in the scheduler's units.

cpu is in thousandths (milli-cpu), everything else in whole units (bytes for memory), as in the scheduler's own account
(pkg/scheduler/framework/types.go, v1.36). Absence has two meanings, so there are two comparisons: a limit that is
missing is no limit (`over`), a capacity that is missing is none (`short_of`).
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping
from typing import TypeVar, overload

from webhook.accounting.name_families import LIMITS_PREFIX, REQUESTS_PREFIX
from webhook.accounting.quantity import Format, Quantity

T = TypeVar("T")

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_CPU = frozenset({"cpu", LIMITS_PREFIX + "cpu", REQUESTS_PREFIX + "cpu"})


def is_milli(name: str) -> bool:
    """Whether its unit is a thousandth: cpu, by itself or in a quota's words."""
    return name in _CPU


def amount(name: str, quantity: Quantity) -> int:
    """What is asked for, rounded up to the unit."""
    return quantity.milli() if is_milli(name) else quantity.value()


def bound(name: str, quantity: Quantity) -> int:
    """What a cap, minimum or maximum allows, rounded down to the unit: half a GPU of room is none."""
    return quantity.floor_milli() if is_milli(name) else quantity.floor()


def shown(name: str, amount: int) -> str:
    """An amount as a person would write it: `1500m` cpu, `64Gi` memory, `3000` GPUs."""
    if is_milli(name):
        return Quantity(amount, -3).canonical
    if name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX).startswith(_BYTES):
        return Quantity(amount, 0, Format.BINARY_SI).canonical
    return str(amount)


class Amounts(Mapping[str, int]):
    """An immutable mapping from resource name to amount. A name that is not in it is absent, which is not zero."""

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts: dict[str, int] = dict(amounts) if amounts else {}

    # What Mapping would do by __getitem__ takes ten times as long, and every create under a cap asks a hundred times.

    @overload
    def get(self, name: str, /) -> int | None: ...

    @overload
    def get(self, name: str, default: int, /) -> int: ...

    @overload
    def get(self, name: str, default: T, /) -> int | T: ...

    def get(self, name: str, default: object = None, /) -> object:
        """The amount of a name, or the default where it is absent."""
        return self._amounts.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._amounts.keys()

    def items(self) -> ItemsView[str, int]:
        """Names and amounts."""
        return self._amounts.items()

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts.items()))

    def __repr__(self) -> str:
        return f"Amounts({self._amounts!r})"

    def __add__(self, other: Mapping[str, int]) -> Amounts:
        """The sum by name; a name absent on one side counts as zero there."""
        return self._with(other, int.__add__)

    def __sub__(self, other: Mapping[str, int]) -> Amounts:
        """The difference by name; a name absent on one side counts as zero there. It may be negative."""
        return self._with(other, int.__sub__)

    def max_with(self, other: Mapping[str, int]) -> Amounts:
        """The larger of both by name; a name that only one side has keeps its amount."""
        larger = {name: max(asked, self._amounts.get(name, asked)) for name, asked in other.items()}
        return Amounts({**self._amounts, **larger})

    def over(self, limits: Mapping[str, int]) -> Amounts:
        """By how much each limit is exceeded. A missing limit is unlimited; empty means all is within."""
        return Amounts(
            {name: held - limit for name, held in self._amounts.items() if held > (limit := limits.get(name, held))}
        )

    def short_of(self, capacity: Mapping[str, int]) -> Amounts:
        """How much of each is lacking. A missing capacity is zero; empty means there is enough of all."""
        return Amounts(
            {name: asked - has for name, asked in self._amounts.items() if asked > (has := capacity.get(name, 0))}
        )

    def _with(self, other: Mapping[str, int], combine: Callable[[int, int], int]) -> Amounts:
        """Both sides name by name."""
        combined = {name: combine(self._amounts.get(name, 0), there) for name, there in other.items()}
        return Amounts({**self._amounts, **combined})
