"""Nodes in columns: what each has, what is used of it, its labels and taints."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.categories import Categories
from webhook.accounting.cluster.integers import Integers
from webhook.accounting.node_fit import allocatable
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import NodeSpec, PlacingNode, Taint

_FIRST_SIZE = 64
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Nodes:
    """Nodes by place. A place is kept as long as there is the node or a pod that says it is on it.

    Amounts are the scheduler's: milli-cpu, else whole units.
    """

    def __init__(self) -> None:
        self._size = _FIRST_SIZE
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._labels: list[Mapping[str, str]] = []
        self._there = np.zeros(_FIRST_SIZE, dtype=np.bool_)
        self._known: NDArray[np.intp] | None = None
        self._allocatable: dict[str, Integers] = {}
        self._used: dict[str, Integers] = {}
        self._by_label: dict[str, Categories[str]] = {}
        self.taints: Categories[tuple[Taint, ...]] = Categories(_FIRST_SIZE)
        self.features: Categories[frozenset[str]] = Categories(_FIRST_SIZE)
        self.unschedulable = np.zeros(_FIRST_SIZE, dtype=np.bool_)
        self.pods = Integers(_FIRST_SIZE)
        self.weights = {"cpu": Integers(_FIRST_SIZE), "memory": Integers(_FIRST_SIZE)}

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.places())

    @property
    def size(self) -> int:
        """How long every column is."""
        return self._size

    def places(self) -> NDArray[np.intp]:
        """The places of the nodes that are there, ascending."""
        if self._known is None:
            self._known = np.flatnonzero(self._there)
        return self._known

    def place(self, name: str) -> int | None:
        """The place of a node that is there."""
        place = self._places.get(name)
        return place if place is not None and self._there[place] else None

    def name(self, place: int) -> str:
        """The name of the node at a place."""
        return self._names[place]

    def labels(self, place: int) -> Mapping[str, str]:
        """The labels of the node at a place."""
        return self._labels[place]

    def label(self, key: str) -> Categories[str] | None:
        """The column of a label; None when no node has it."""
        return self._by_label.get(key)

    def resources(self) -> frozenset[str]:
        """Every name that some node has, or has had, an allocatable of."""
        return frozenset(self._allocatable)

    def allocatable(self, resource: str) -> Integers | None:
        """What each node has of a resource for pods; None when no node has any."""
        return self._allocatable.get(resource)

    def used(self, resource: str) -> Integers | None:
        """What pods use of a resource on each node; None when no pod uses any."""
        return self._used.get(resource)

    def has(self, place: int) -> Amounts:
        """Everything that one node has for pods; what it has none of is left out."""
        return _at(self._allocatable, place)

    def uses(self, place: int) -> Amounts:
        """Everything that pods use on one node; what they use none of is left out."""
        return _at(self._used, place)

    def put(self, node: PlacingNode) -> int:
        """Keep a node as it is now; its place.

        Raises:
            QuantityError: a quantity of its allocatable is none; nothing has changed then.
        """
        meta, spec, amounts = node.metadata or ObjectMeta(), node.spec or NodeSpec(), allocatable(node)
        place = self.reserve(meta.name or "")
        self._put_amounts(place, amounts)
        self._put_labels(place, meta.labels or _NO_LABELS)
        self.taints.put(place, tuple(spec.taints) if spec.taints else None)
        declared = node.status.declared_features if node.status else None
        self.features.put(place, frozenset(declared) if declared else None)
        self.unschedulable[place] = bool(spec.unschedulable)
        if not self._there[place]:
            self._there[place], self._known = True, None
        return place

    def remove(self, name: str) -> None:
        """Keep a node no longer. Pods that say they are on it may outlast it."""
        place = self.place(name)
        if place is None:
            return
        self._put_amounts(place, Amounts())
        self._put_labels(place, _NO_LABELS)
        self.taints.put(place, None)
        self.features.put(place, None)
        self.unschedulable[place] = False
        self._there[place], self._known = False, None
        self.release(place)

    def reserve(self, name: str) -> int:
        """The place of a node, there or not."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = self._new_place(name)
        return place

    def release(self, place: int) -> None:
        """Give a place back if neither a node nor a pod is there."""
        if not self._there[place] and not self.pods[place] and self._names[place] in self._places:
            del self._places[self._names[place]]
            self._names[place] = ""
            self._free.append(place)

    def use(self, place: int, amounts: Mapping[str, int], weight: Mapping[str, int], pods: int) -> None:
        """Add a pod's amounts and weight, so many times, to what is used; -1 takes them away."""
        for name, amount in amounts.items():
            column = self._used.get(name)
            if column is None:
                column = self._used[name] = Integers(self._size)
            column[place] += pods * amount
        for name, amount in weight.items():
            self.weights[name][place] += pods * amount
        self.pods[place] += pods

    def _put_amounts(self, place: int, amounts: Mapping[str, int]) -> None:
        for name in amounts:
            if name not in self._allocatable:
                self._allocatable[name] = Integers(self._size)
        for name, column in self._allocatable.items():
            column[place] = amounts.get(name, 0)

    def _put_labels(self, place: int, labels: Mapping[str, str]) -> None:
        for key in self._labels[place].keys() - labels.keys():
            column = self._by_label[key]
            column.put(place, None)
            if not column:
                del self._by_label[key]
        for key, value in labels.items():
            if key not in self._by_label:
                self._by_label[key] = Categories(self._size)
            self._by_label[key].put(place, value)
        self._labels[place] = labels

    def _new_place(self, name: str) -> int:
        if self._free:
            place = self._free.pop()
            self._names[place] = name
            return place
        if len(self._names) == self._size:
            self._grow(2 * self._size)
        self._names.append(name)
        self._labels.append(_NO_LABELS)
        return len(self._names) - 1

    def _grow(self, size: int) -> None:
        more = np.zeros(size - self._size, dtype=np.bool_)
        self._there = np.concatenate([self._there, more])
        self.unschedulable = np.concatenate([self.unschedulable, more])
        for integers in (*self._allocatable.values(), *self._used.values(), *self.weights.values(), self.pods):
            integers.grow(size)
        for column in self._by_label.values():
            column.grow(size)
        self.taints.grow(size)
        self.features.grow(size)
        self._size = size


def _at(columns: Mapping[str, Integers], place: int) -> Amounts:
    return Amounts({name: amount for name, column in columns.items() if (amount := column[place])})
