"""What pods take of nodes by their priority: how much would be free on each if those below a priority left."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.integers import Integers

_PODS = "pods"
Numbers = NDArray[np.int64]


class _Rank:
    """The pods of one priority: how many there are, and what they take, by resource and place."""

    def __init__(self) -> None:
        self.pods = 0
        self.taken: dict[str, Integers] = {}


class Ranks:
    """The pods on nodes, rank by rank. There are as many ranks as priorities that somebody on a node has."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}

    def count(self, priority: int, place: int, amounts: Mapping[str, int], pods: int, size: int) -> None:
        """Count a pod of this priority at a place so many times; -1 takes it away. Columns are `size` long."""
        rank = self._ranks.get(priority)
        if rank is None:
            rank = self._ranks[priority] = _Rank()
        rank.pods += pods
        if not rank.pods:
            del self._ranks[priority]
            return
        _add(rank.taken, _PODS, place, pods, size)
        for name, amount in amounts.items():
            _add(rank.taken, name, place, pods * amount, size)

    def below(self, priority: int, resource: str, used: Numbers) -> Numbers:
        """How much pods of a lower priority take of what is `used` of a resource at each place; `pods` is one, too."""
        total = np.zeros_like(used)  # as exact as what it is a part of
        for each, rank in self._ranks.items():
            taken = rank.taken.get(resource) if each < priority else None
            if taken is not None:
                if len(taken.array) < len(used):
                    taken.grow(len(used))
                total = total + taken.array
        return total


def _add(taken: dict[str, Integers], name: str, place: int, amount: int, size: int) -> None:
    column = taken.get(name)
    if column is None:
        column = taken[name] = Integers(size)
    elif len(column.array) < size:
        column.grow(size)
    column[place] += amount
