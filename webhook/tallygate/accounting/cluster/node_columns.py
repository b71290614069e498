"""Nodes in columns: allocatable and used amounts, labels and taints, and the used amounts by pod priority.

The amounts by priority give the free amount of each node without the pods below a priority.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster.columns import CategoryColumn, IntegerColumn
from tallygate.accounting.node_fit import count_unhealthy, parse_allocatable
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import NodeSpec, SchedulingNode, Taint

_INITIAL_SIZE = 64
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
IntegerArray = NDArray[np.int64]


class NodeColumns:
    """Nodes by index. A node keeps its index as long as it exists or a pod names it.

    Amounts are the scheduler's: milli-cpu, else whole units. Unhealthy devices are the part of the capacity of an
    extended resource that a node cannot allocate: they may become healthy.
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
        self._unhealthy: dict[str, IntegerColumn] = {}
        self._by_label: dict[str, CategoryColumn[str]] = {}
        self.taints: CategoryColumn[tuple[Taint, ...]] = CategoryColumn(_INITIAL_SIZE)
        self.features: CategoryColumn[frozenset[str]] = CategoryColumn(_INITIAL_SIZE)
        self.unschedulable = np.zeros(_INITIAL_SIZE, dtype=np.bool_)
        self.pods = IntegerColumn(_INITIAL_SIZE)
        self.non_zero_requests = {"cpu": IntegerColumn(_INITIAL_SIZE), "memory": IntegerColumn(_INITIAL_SIZE)}

    def __len__(self) -> int:
        return len(self.get_indices())

    @property
    def size(self) -> int:
        """The length of every column."""
        return self._size

    def get_indices(self) -> NDArray[np.intp]:
        """Return the indices of the existing nodes, ascending."""
        if self._indices is None:
            self._indices = np.flatnonzero(self._exists)
        return self._indices

    def find_index(self, name: str) -> int | None:
        """Return the index of an existing node; None if the node is missing."""
        index = self._index_by_name.get(name)
        return index if index is not None and self._exists[index] else None

    def get_name(self, index: int) -> str:
        return self._names[index]

    def get_labels(self, index: int) -> Mapping[str, str]:
        return self._labels[index]

    def find_label_column(self, key: str) -> CategoryColumn[str] | None:
        """Return the column of a label; None when no node has the label."""
        return self._by_label.get(key)

    def list_resources(self) -> frozenset[str]:
        """Return the name of each resource that is, or was, allocatable on a node."""
        return frozenset(self._allocatable)

    def find_allocatable_column(self, resource: str) -> IntegerColumn | None:
        """Return the allocatable amounts of a resource by node index; None when no node has had any."""
        return self._allocatable.get(resource)

    def find_unhealthy_column(self, resource: str) -> IntegerColumn | None:
        """Return the numbers of unhealthy devices of a resource by node index; None when no node has had any."""
        return self._unhealthy.get(resource)

    def find_capacity(self, resource: str, indices: NDArray[np.intp]) -> IntegerArray:
        """Return the amounts of a resource that these nodes have, with their unhealthy devices."""
        allocatable, unhealthy = self._allocatable.get(resource), self._unhealthy.get(resource)
        amounts = np.zeros(len(indices), dtype=np.int64) if allocatable is None else allocatable.array[indices]
        return amounts if unhealthy is None else amounts + unhealthy.array[indices]

    def find_used_column(self, resource: str) -> IntegerColumn | None:
        """Return the amounts of a resource that pods use, by node index; None when no pod has used any."""
        return self._used.get(resource)

    def get_allocatable(self, index: int) -> Amounts:
        """Return the allocatable amounts of one node, without zeros."""
        return _read_amounts(self._allocatable, index)

    def get_used(self, index: int) -> Amounts:
        """Return the amounts that pods use on one node, without zeros."""
        return _read_amounts(self._used, index)

    def put(self, node: SchedulingNode) -> int:
        """Add a node, or replace its previous version, and return its index.

        Raises:
            QuantityError: if an allocatable quantity is invalid; the columns are unchanged.
        """
        meta, spec, amounts = node.metadata or ObjectMeta(), node.spec or NodeSpec(), parse_allocatable(node)
        index = self.acquire_index(meta.name or "")
        self._put_amounts(self._allocatable, index, amounts)
        self._put_amounts(self._unhealthy, index, count_unhealthy(node))
        self._put_labels(index, meta.labels or _NO_LABELS)
        self.taints.put(index, tuple(spec.taints) if spec.taints else None)
        features = node.status.declared_features if node.status else None
        self.features.put(index, frozenset(features) if features else None)
        self.unschedulable[index] = bool(spec.unschedulable)
        if not self._exists[index]:
            self._exists[index], self._indices = True, None
        return index

    def remove(self, name: str) -> None:
        """Remove a node. Its index stays while pods name the node."""
        index = self.find_index(name)
        if index is None:
            return
        self._put_amounts(self._allocatable, index, Amounts())
        self._put_amounts(self._unhealthy, index, Amounts())
        self._put_labels(index, _NO_LABELS)
        self.taints.put(index, None)
        self.features.put(index, None)
        self.unschedulable[index] = False
        self._exists[index], self._indices = False, None
        self.release_index(index)

    def acquire_index(self, name: str) -> int:
        """Return the index of a node name, a new one if the name has none."""
        index = self._index_by_name.get(name)
        if index is None:
            index = self._index_by_name[name] = self._allocate_index(name)
        return index

    def release_index(self, index: int) -> None:
        """Free an index that neither a node nor a pod uses."""
        if not self._exists[index] and not self.pods[index] and self._names[index] in self._index_by_name:
            del self._index_by_name[self._names[index]]
            self._names[index] = ""
            self._free_indices.append(index)

    def add_usage(
        self, index: int, amounts: Mapping[str, int], non_zero_requests: Mapping[str, int], count: int
    ) -> None:
        """Add `count` times a pod's amounts and non-zero requests to the used ones; -1 subtracts them."""
        for name, amount in amounts.items():
            column = self._used.get(name)
            if column is None:
                column = self._used[name] = IntegerColumn(self._size)
            column[index] += count * amount
        for name, amount in non_zero_requests.items():
            self.non_zero_requests[name][index] += count * amount
        self.pods[index] += count

    def _put_amounts(self, columns: dict[str, IntegerColumn], index: int, amounts: Mapping[str, int]) -> None:
        for name in amounts:
            if name not in columns:
                columns[name] = IntegerColumn(self._size)
        for name, column in columns.items():
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
            *self._unhealthy.values(),
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
        """Return whether at least one node has some of a resource, even if all its devices are unhealthy."""
        return bool(self._mask_advertising(resource).any())

    def list_advertising_nodes(self, resource: str, max_count: int) -> Sequence[str]:
        """Return the names of at most `max_count` nodes that have some of a resource, in order."""
        indices = self.get_indices()[self._mask_advertising(resource)].tolist()
        return sorted(map(self.get_name, indices))[:max_count]

    def list_advertised_resources(self) -> Sequence[str]:
        """Return the name of each resource that at least one node has some of, in order."""
        return sorted(name for name in self.list_resources() if self.is_advertised(name))

    def _mask_advertising(self, resource: str) -> NDArray[np.bool_]:
        return np.asarray(self.find_capacity(resource, self.get_indices()) > 0, dtype=np.bool_)


def _read_amounts(columns: Mapping[str, IntegerColumn], index: int) -> Amounts:
    return Amounts({name: amount for name, column in columns.items() if (amount := column[index])})


_POD_COUNT = "pods"


class _PriorityColumns:
    """The pods of one priority: their number, and the amounts that they use, by resource and node index."""

    def __init__(self) -> None:
        self.pods = 0
        self.used: dict[str, IntegerColumn] = {}


class PriorityUsage:
    """The amounts that pods on nodes use, by pod priority. Only the priorities of existing pods take memory."""

    def __init__(self) -> None:
        self._by_priority: dict[int, _PriorityColumns] = {}

    def count(self, priority: int, index: int, amounts: Mapping[str, int], pods: int, size: int) -> None:
        """Add `pods` times a pod to the usage of its priority on a node; -1 subtracts it. Columns are `size` long."""
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
        """Return the part of `used`, by node index, that pods of lower priority use; `pods` is a resource, too."""
        total = np.zeros_like(used)  # has the dtype of `used`, and so is as exact
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
