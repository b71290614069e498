"""What pods take of nodes by their priority: how much would be free on each if those below a priority left."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.integers import IntegerColumn

_POD_COUNT = "pods"
IntegerArray = NDArray[np.int64]


class _PriorityColumns:
    """The pods of one priority: how many there are, and what they take, by resource and place."""

    def __init__(self) -> None:
        self.pods = 0
        self.used: dict[str, IntegerColumn] = {}


class PriorityUsage:
    """The pods on nodes, rank by rank. There are as many ranks as priorities that somebody on a node has."""

    def __init__(self) -> None:
        self._by_priority: dict[int, _PriorityColumns] = {}

    def count(self, priority: int, index: int, amounts: Mapping[str, int], pods: int, size: int) -> None:
        """Count a pod of this priority at a place so many times; -1 takes it away. Columns are `size` long."""
        columns = self._by_priority.get(priority)
        if columns is None:
            columns = self._by_priority[priority] = _PriorityColumns()
        columns.pods += pods
        if not columns.pods:
            del self._by_priority[priority]
            return
        _add_amount(columns.used, _POD_COUNT, index, pods, size)
        for name, amount in amounts.items():
            _add_amount(columns.used, name, index, pods * amount, size)

    def sum_lower_priorities(self, priority: int, resource: str, used: IntegerArray) -> IntegerArray:
        """How much pods of a lower priority take of what is `used` of a resource at each place; `pods` is one, too."""
        total = np.zeros_like(used)  # as exact as what it is a part of
        for other_priority, columns in self._by_priority.items():
            column = columns.used.get(resource) if other_priority < priority else None
            if column is not None:
                if len(column.array) < len(used):
                    column.grow(len(used))
                total = total + column.array
        return total


def _add_amount(columns: dict[str, IntegerColumn], name: str, index: int, amount: int, size: int) -> None:
    column = columns.get(name)
    if column is None:
        column = columns[name] = IntegerColumn(size)
    elif len(column.array) < size:
        column.grow(size)
    column[index] += amount
