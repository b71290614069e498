"""Nodes in columns: what each has, what is used of it, its labels and taints.

What pods take of nodes by their priority: how much would be free on each if those below a priority left.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.columns import CategoryColumn, IntegerColumn
from webhook.accounting.node_fit import parse_allocatable
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import NodeSpec, SchedulingNode, Taint

_INITIAL_SIZE = 64
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class NodeColumns:
    """Nodes by place. A place is kept as long as there is the node or a pod that says it is on it.

    Amounts are the scheduler's: milli-cpu, else whole units.
    """

    def __init__(self) -> None:
        self._size = _INITIAL_SIZE
        self._index_by_name: dict[str, int] = {}
        self._names: list[str] = []
        self._free_indices: list[int] = []
        self._labels: list[Mapping[str, str]] = []
        self._exists = np.zeros(_INITIAL_SIZE, dtype=np.bool_)
        self._indices: NDArray[np.intp] | None = None
        self._allocatable: dict[str, IntegerColumn] = {}
        self._used: dict[str, IntegerColumn] = {}
        self._by_label: dict[str, CategoryColumn[str]] = {}
        self.taints: CategoryColumn[tuple[Taint, ...]] = CategoryColumn(_INITIAL_SIZE)
        self.features: CategoryColumn[frozenset[str]] = CategoryColumn(_INITIAL_SIZE)
        self.unschedulable = np.zeros(_INITIAL_SIZE, dtype=np.bool_)
        self.pods = IntegerColumn(_INITIAL_SIZE)
        self.non_zero_requests = {"cpu": IntegerColumn(_INITIAL_SIZE), "memory": IntegerColumn(_INITIAL_SIZE)}

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.get_indices())

    @property
    def size(self) -> int:
        """How long every column is."""
        return self._size

    def get_indices(self) -> NDArray[np.intp]:
        """The places of the nodes that are there, ascending."""
        if self._indices is None:
            self._indices = np.flatnonzero(self._exists)
        return self._indices

    def find_index(self, name: str) -> int | None:
        """The place of a node that is there."""
        index = self._index_by_name.get(name)
        return index if index is not None and self._exists[index] else None

    def get_name(self, index: int) -> str:
        """The name of the node at a place."""
        return self._names[index]

    def get_labels(self, index: int) -> Mapping[str, str]:
        """The labels of the node at a place."""
        return self._labels[index]

    def find_label_column(self, key: str) -> CategoryColumn[str] | None:
        """The column of a label; None when no node has it."""
        return self._by_label.get(key)

    def list_resources(self) -> frozenset[str]:
        """Every name that some node has, or has had, an allocatable of."""
        return frozenset(self._allocatable)

    def find_allocatable_column(self, resource: str) -> IntegerColumn | None:
        """What each node has of a resource for pods; None when no node has any."""
        return self._allocatable.get(resource)

    def find_used_column(self, resource: str) -> IntegerColumn | None:
        """What pods use of a resource on each node; None when no pod uses any."""
        return self._used.get(resource)

    def get_allocatable(self, index: int) -> Amounts:
        """Everything that one node has for pods; what it has none of is left out."""
        return _read_amounts(self._allocatable, index)

    def get_used(self, index: int) -> Amounts:
        """Everything that pods use on one node; what they use none of is left out."""
        return _read_amounts(self._used, index)

    def put(self, node: SchedulingNode) -> int:
        """Keep a node as it is now; its place.

        Raises:
            QuantityError: a quantity of its allocatable is none; nothing has changed then.
        """
        meta, spec, amounts = node.metadata or ObjectMeta(), node.spec or NodeSpec(), parse_allocatable(node)
        index = self.acquire_index(meta.name or "")
        self._put_allocatable(index, amounts)
        self._put_labels(index, meta.labels or _NO_LABELS)
        self.taints.put(index, tuple(spec.taints) if spec.taints else None)
        features = node.status.declared_features if node.status else None
        self.features.put(index, frozenset(features) if features else None)
        self.unschedulable[index] = bool(spec.unschedulable)
        if not self._exists[index]:
            self._exists[index], self._indices = True, None
        return index

    def remove(self, name: str) -> None:
        """Keep a node no longer. Pods that say they are on it may outlast it."""
        index = self.find_index(name)
        if index is None:
            return
        self._put_allocatable(index, Amounts())
        self._put_labels(index, _NO_LABELS)
        self.taints.put(index, None)
        self.features.put(index, None)
        self.unschedulable[index] = False
        self._exists[index], self._indices = False, None
        self.release_index(index)

    def acquire_index(self, name: str) -> int:
        """The place of a node, there or not."""
        index = self._index_by_name.get(name)
        if index is None:
            index = self._index_by_name[name] = self._allocate_index(name)
        return index

    def release_index(self, index: int) -> None:
        """Give a place back if neither a node nor a pod is there."""
        if not self._exists[index] and not self.pods[index] and self._names[index] in self._index_by_name:
            del self._index_by_name[self._names[index]]
            self._names[index] = ""
            self._free_indices.append(index)

    def add_usage(
        self, index: int, amounts: Mapping[str, int], non_zero_requests: Mapping[str, int], count: int
    ) -> None:
        """Add a pod's amounts and weight, so many times, to what is used; -1 takes them away."""
        for name, amount in amounts.items():
            column = self._used.get(name)
            if column is None:
                column = self._used[name] = IntegerColumn(self._size)
            column[index] += count * amount
        for name, amount in non_zero_requests.items():
            self.non_zero_requests[name][index] += count * amount
        self.pods[index] += count

    def _put_allocatable(self, index: int, amounts: Mapping[str, int]) -> None:
        for name in amounts:
            if name not in self._allocatable:
                self._allocatable[name] = IntegerColumn(self._size)
        for name, column in self._allocatable.items():
            column[index] = amounts.get(name, 0)

    def _put_labels(self, index: int, labels: Mapping[str, str]) -> None:
        for key in self._labels[index].keys() - labels.keys():
            column = self._by_label[key]
            column.put(index, None)
            if not column:
                del self._by_label[key]
        for key, value in labels.items():
            if key not in self._by_label:
                self._by_label[key] = CategoryColumn(self._size)
            self._by_label[key].put(index, value)
        self._labels[index] = labels

    def _allocate_index(self, name: str) -> int:
        if self._free_indices:
            index = self._free_indices.pop()
            self._names[index] = name
            return index
        if len(self._names) == self._size:
            self._grow(2 * self._size)
        self._names.append(name)
        self._labels.append(_NO_LABELS)
        return len(self._names) - 1

    def _grow(self, size: int) -> None:
        padding = np.zeros(size - self._size, dtype=np.bool_)
        self._exists = np.concatenate([self._exists, padding])
        self.unschedulable = np.concatenate([self.unschedulable, padding])
        for integers in (
            *self._allocatable.values(),
            *self._used.values(),
            *self.non_zero_requests.values(),
            self.pods,
        ):
            integers.grow(size)
        for column in self._by_label.values():
            column.grow(size)
        self.taints.grow(size)
        self.features.grow(size)
        self._size = size

    def is_advertised(self, resource: str) -> bool:
        """Return whether at least one node has some of a resource."""
        mask = self._mask_advertising(resource)
        return mask is not None and bool(mask.any())

    def list_advertising_nodes(self, resource: str, max_count: int) -> Sequence[str]:
        """Return the names of at most `max_count` nodes that have some of a resource, in order."""
        mask = self._mask_advertising(resource)
        indices = [] if mask is None else self.get_indices()[mask].tolist()
        return sorted(map(self.get_name, indices))[:max_count]

    def list_advertised_resources(self) -> Sequence[str]:
        """Return the name of each resource that at least one node has some of, in order."""
        return sorted(name for name in self.list_resources() if self.is_advertised(name))

    def _mask_advertising(self, resource: str) -> NDArray[np.bool_] | None:
        column = self.find_allocatable_column(resource)
        return None if column is None else column.array[self.get_indices()] > 0


def _read_amounts(columns: Mapping[str, IntegerColumn], index: int) -> Amounts:
    return Amounts({name: amount for name, column in columns.items() if (amount := column[index])})


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
