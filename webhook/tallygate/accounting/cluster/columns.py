"""Columns of values: categories, each stored once and referred to by number, and exact integers of any size.

Kubernetes adds amounts in 64 bits and lets them overflow. Here an integer column with a number of that size changes to
Python's own integers, which are slower and exact.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)

ABSENT = -1
"""The number of an index without a value."""


class CategoryColumn(Generic[K]):
    """A column of `size` indices without a value.

    `ids` has the number of each index, `ABSENT` for an index without a value. The column reuses a number once no index
    has its value.
    """

    __slots__ = ("_counts", "_free_numbers", "_number_by_value", "_values", "ids")

    def __init__(self, size: int) -> None:
        self.ids: NDArray[np.int32] = np.full(size, ABSENT, dtype=np.int32)
        self._values: list[K | None] = []
        self._counts: list[int] = []
        self._number_by_value: dict[K, int] = {}
        self._free_numbers: list[int] = []

    def __len__(self) -> int:
        """Return the exclusive upper limit of the numbers in `ids`."""
        return len(self._values)

    def __bool__(self) -> bool:
        return bool(self._number_by_value)

    def put(self, index: int, value: K | None) -> None:
        """Set the value of an index; None clears it."""
        old_number = int(self.ids[index])
        number = ABSENT if value is None else self._acquire_number(value)
        self.ids[index] = number
        if old_number != ABSENT:
            self._release_number(old_number)

    def value(self, index: int) -> K | None:
        """Return the value of an index; None without one."""
        number = int(self.ids[index])
        return None if number == ABSENT else self._values[number]

    def numbers(self) -> dict[K, int]:
        """Return every value in the column with its number. Callers must not change the mapping."""
        return self._number_by_value

    def number(self, value: K) -> int:
        """Return the number of a value, `ABSENT` if no index has it."""
        return self._number_by_value.get(value, ABSENT)

    def mask_values(self, values: Iterable[K]) -> NDArray[np.bool_]:
        table = np.zeros(len(self._values) + 1, dtype=np.bool_)  # the last element is that of ABSENT
        table[[number for value in values if (number := self._number_by_value.get(value)) is not None]] = True
        mask: NDArray[np.bool_] = table[self.ids]
        return mask

    def mask_matching(self, test: Callable[[K], bool]) -> NDArray[np.bool_]:
        """Return a mask of the indices whose value passes the test; each value is tested once."""
        return self.mask_values([value for value in self._number_by_value if test(value)])

    def grow(self, size: int) -> None:
        """Extend the column to `size` indices; the new ones have no value."""
        padding = np.full(size - len(self.ids), ABSENT, dtype=np.int32)
        self.ids = np.concatenate([self.ids, padding])

    def _acquire_number(self, value: K) -> int:
        number = self._number_by_value.get(value)
        if number is None:
            number = self._allocate_number(value)
        self._counts[number] += 1
        return number

    def _allocate_number(self, value: K) -> int:
        if self._free_numbers:
            number = self._free_numbers.pop()
            self._values[number] = value
        else:
            number = len(self._values)
            self._values.append(value)
            self._counts.append(0)
        self._number_by_value[value] = number
        return number

    def _release_number(self, number: int) -> None:
        self._counts[number] -= 1
        value = self._values[number]
        if not self._counts[number] and value is not None:
            del self._number_by_value[value]
            self._values[number] = None
            self._free_numbers.append(number)


_INT64_SAFE = 1 << 62  # the difference of two smaller numbers fits in 64 bits


class IntegerColumn:
    """A column of `size` zeros."""

    __slots__ = ("array",)

    def __init__(self, size: int) -> None:
        self.array: NDArray[Any] = np.zeros(size, dtype=np.int64)

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])

    def __setitem__(self, index: int, number: int) -> None:
        if not -_INT64_SAFE < number < _INT64_SAFE and self.array.dtype != object:
            self.array = self.array.astype(object)
        self.array[index] = number

    def grow(self, size: int) -> None:
        """Extend the column to `size` indices with zeros."""
        padding = np.zeros(size - len(self.array), dtype=self.array.dtype)
        self.array = np.concatenate([self.array, padding])


NodeIndices = NDArray[np.intp]
"""Indices of nodes in a cluster's columns."""

Mask = NDArray[np.bool_]
"""A boolean for each of some nodes, in their order."""
