"""All pods of a cluster, in columns: one list per field, one place per pod, an index by UID and by namespace.

A hundred thousand pods as objects would be a gigabyte. Not to be used by two threads at once; `view` sees to that.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import NamedTuple

from webhook.state.watch.pods import PodRow
from webhook.state.watch.shapes import Shape

_ENDED = 1
_TERMINATING = 2
_NO_SHAPE = Shape(b"{}")
_NONE: Mapping[Shape, int] = MappingProxyType({})


class Place(NamedTuple):
    """One pod as it is kept."""

    uid: str
    namespace: str
    name: str
    node: str
    revision: int
    has_ended: bool
    is_terminating: bool
    shape: Shape


class Columns:
    """Pods by UID."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._in: dict[str, set[int]] = {}
        self._shapes: dict[str, dict[Shape, int]] = {}  # of a namespace's pods that have not ended, how many have each
        self._free: list[int] = []
        self._uid: list[str] = []
        self._namespace: list[str] = []
        self._name: list[str] = []
        self._node: list[str] = []
        self._shape: list[Shape] = []
        self._revision = array("q")
        self._flags = bytearray()

    def __len__(self) -> int:
        return len(self._places)

    def put(self, row: PodRow) -> bool:
        """Keep a pod as it is now; whether what it costs may be another than before."""
        place = self._places.get(row.uid)
        if place is None:
            place = self._new_place(row)
        matters = self._shape[place] is not row.shape or bool(self._flags[place] & _ENDED) is not row.has_ended
        if matters:
            self._count(place, -1)
        self._node[place] = row.node
        self._shape[place] = row.shape
        self._revision[place] = row.revision
        self._flags[place] = _ENDED * row.has_ended | _TERMINATING * row.is_terminating
        if matters:
            self._count(place, 1)
        return matters

    def remove(self, uid: str) -> bool:
        """Keep a pod no longer; whether it was kept."""
        place = self._places.pop(uid, None)
        if place is None:
            return False
        self._count(place, -1)
        namespace = self._namespace[place]
        there = self._in[namespace]
        there.discard(place)
        if not there:
            del self._in[namespace]
        self._uid[place] = self._namespace[place] = self._name[place] = self._node[place] = ""
        self._shape[place] = _NO_SHAPE
        self._free.append(place)
        return True

    def find(self, uid: str) -> Place | None:
        """One pod, if it is kept."""
        place = self._places.get(uid)
        return None if place is None else self._read(place)

    def within(self, namespace: str) -> Iterator[Place]:
        """The pods of a namespace, in no order."""
        return map(self._read, self._in.get(namespace, ()))

    def costing(self, namespaces: Iterable[str]) -> Iterator[tuple[str, Shape]]:
        """UID and shape of the pods of these namespaces that have not ended."""
        for place in self._running(namespaces):
            yield self._uid[place], self._shape[place]

    def shapes(self, namespaces: Iterable[str]) -> Counter[Shape]:
        """How many pods of these namespaces that have not ended have each shape."""
        found: Counter[Shape] = Counter()
        for namespace in namespaces:
            found.update(self._shapes.get(namespace, _NONE))
        return found

    def heaps(self, namespace: str) -> Iterator[tuple[Shape, bool, int]]:
        """How many pods of a namespace that have not ended have each shape: first those that stay, then those that go.

        True for those that are being deleted.
        """
        flags, shape, there = self._flags, self._shape, self._in.get(namespace, ())
        for wanted in (0, _TERMINATING):
            pods = Counter([shape[place] for place in there if flags[place] == wanted])
            yield from ((each, bool(wanted), count) for each, count in pods.items())

    def named(self, namespace: str, shape: Shape, most: int, *, is_terminating: bool) -> list[str]:
        """The first names of a namespace's pods that are of one heap."""
        flags, wanted = self._flags, _TERMINATING * is_terminating
        there = (place for place in self._in.get(namespace, ()) if self._shape[place] is shape)
        return nsmallest(most, (self._name[place] for place in there if flags[place] == wanted))

    def _running(self, namespaces: Iterable[str]) -> Iterator[int]:
        flags = self._flags
        return (place for name in namespaces for place in self._in.get(name, ()) if not flags[place] & _ENDED)

    def _count(self, place: int, pods: int) -> None:
        """So many pods more have the shape that this one has, if it has one and has not ended."""
        shape = self._shape[place]
        if shape is _NO_SHAPE or self._flags[place] & _ENDED:
            return
        there = self._shapes.setdefault(self._namespace[place], {})
        if left := there.get(shape, 0) + pods:
            there[shape] = left
            return
        del there[shape]
        if not there:
            del self._shapes[self._namespace[place]]

    def _new_place(self, row: PodRow) -> int:
        namespace = row.namespace
        if self._free:
            place = self._free.pop()
            self._uid[place], self._namespace[place], self._name[place] = row.uid, namespace, row.name
        else:
            place = len(self._uid)
            self._uid.append(row.uid)
            self._namespace.append(namespace)
            self._name.append(row.name)
            self._node.append("")
            self._shape.append(_NO_SHAPE)
            self._revision.append(0)
            self._flags.append(0)
        self._places[row.uid] = place
        self._in.setdefault(namespace, set()).add(place)
        return place

    def _read(self, place: int) -> Place:
        flags = self._flags[place]
        return Place(
            self._uid[place],
            self._namespace[place],
            self._name[place],
            self._node[place],
            self._revision[place],
            bool(flags & _ENDED),
            bool(flags & _TERMINATING),
            self._shape[place],
        )
