"""A column of whole numbers, exact whatever their size.

Kubernetes adds amounts up in 64 bits and lets them wrap around. Here a column with a number that large holds Python's
own integers instead, which is slower and right.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_INT64_SAFE = 1 << 62  # the difference of two smaller ones fits in 64 bits


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
        """Make it `size` long, with zeros behind what is there."""
        padding = np.zeros(size - len(self.array), dtype=self.array.dtype)
        self.array = np.concatenate([self.array, padding])
