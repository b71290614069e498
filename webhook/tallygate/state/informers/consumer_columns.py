"""Columns of all pods or claims of a cluster: one list per field, one index per pod, lookups by UID and by namespace.

100,000 pods as objects would take a gigabyte. The columns are not thread-safe; `ConsumerStore` locks them.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import NamedTuple

from tallygate.state.informers.pod_records import ChargeGroup, PodRecord

_ENDED = 1
_TERMINATING = 2
_NO_GROUP = ChargeGroup(b"{}")
_NO_COUNTS: Mapping[ChargeGroup, int] = MappingProxyType({})
_NO_INDEXES: Mapping[str, int] = MappingProxyType({})


class StoredConsumer(NamedTuple):
    """One pod of the columns; `created` is its creation time in seconds since 1970, 0 if it is missing."""

    uid: str
    namespace: str
    name: str
    node: str
    revision: int
    has_ended: bool
    is_terminating: bool
    group: ChargeGroup
    created: int = 0


class ConsumerColumns:
    """Pods by UID."""

    def __init__(self) -> None:
        self._index_by_uid: dict[str, int] = {}
        self._indexes_by_namespace: dict[str, array[int]] = {}
        self._indexes_by_name: dict[str, dict[str, int]] = {}  # by namespace: the last stored pod of each name
        self._position = array("i")  # of each pod in the array of its namespace
        self._group_counts: dict[
            str, dict[ChargeGroup, int]
        ] = {}  # by namespace: number of pods of each group that have not ended
        self._free_indexes: list[int] = []
        self._uid: list[str] = []
        self._namespace: list[str] = []
        self._name: list[str] = []
        self._node: list[str] = []
        self._group: list[ChargeGroup] = []
        self._revision = array("q")
        self._created = array("q")
        self._flags = bytearray()

    def __len__(self) -> int:
        return len(self._index_by_uid)

    def put(self, record: PodRecord) -> bool:
        """Store the current state of a pod; return whether its charge may have changed."""
        index = self._index_by_uid.get(record.uid)
        if index is None:
            index = self._allocate(record)
        is_charge_changed = (
            self._group[index] is not record.group or bool(self._flags[index] & _ENDED) is not record.has_ended
        )
        if is_charge_changed:
            self._add_to_count(index, -1)
        self._node[index] = record.node
        self._group[index] = record.group
        self._revision[index] = record.revision
        self._created[index] = record.created
        self._flags[index] = _ENDED * record.has_ended | _TERMINATING * record.is_terminating
        if is_charge_changed:
            self._add_to_count(index, 1)
        return is_charge_changed

    def remove(self, uid: str) -> bool:
        """Remove a pod; return whether it was stored."""
        index = self._index_by_uid.pop(uid, None)
        if index is None:
            return False
        self._add_to_count(index, -1)
        self._remove_from_namespace(index)
        self._uid[index] = self._namespace[index] = self._name[index] = self._node[index] = ""
        self._group[index] = _NO_GROUP
        self._free_indexes.append(index)
        return True

    def find(self, uid: str) -> StoredConsumer | None:
        """Return one pod, or None if it is not stored."""
        index = self._index_by_uid.get(uid)
        return None if index is None else self._read(index)

    def find_stored(self, uids: frozenset[str]) -> dict[str, StoredConsumer]:
        """Return those of the pods that are stored, by UID."""
        return {uid: self._read(self._index_by_uid[uid]) for uid in self._index_by_uid.keys() & uids}

    def list_all(self, namespace: str) -> Iterator[StoredConsumer]:
        """Return the pods of a namespace, in no order."""
        return map(self._read, self._indexes_by_namespace.get(namespace, ()))

    def list_waiting(self, namespace: str) -> Iterator[StoredConsumer]:
        """Return the pods of a namespace that have no node and have not ended, in no order."""
        nodes, flags, indexes = self._node, self._flags, self._indexes_by_namespace.get(namespace, ())
        return map(self._read, [index for index in indexes if not nodes[index] and not flags[index] & _ENDED])

    def list_namespaces(self) -> list[str]:
        return [name for name, indexes in self._indexes_by_namespace.items() if indexes]

    def find_named(self, namespace: str, name: str) -> StoredConsumer | None:
        """Return the pod of this name that was stored last, if it still is."""
        index = self._indexes_by_name.get(namespace, _NO_INDEXES).get(name)
        return None if index is None else self._read(index)

    def find_all_named(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StoredConsumer]:
        """Return the pods of these namespaces and names that were stored last, if they still are."""
        indexes = {
            (namespace, name): index
            for namespace, name in names
            if (index := self._indexes_by_name.get(namespace, _NO_INDEXES).get(name)) is not None
        }
        return {name: self._read(index) for name, index in indexes.items()}

    def list_groups_by_uid(self, namespaces: Iterable[str]) -> Iterator[tuple[str, ChargeGroup]]:
        """Yield UID and charge group of the pods of these namespaces that have not ended."""
        for index in self._list_running(namespaces):
            yield self._uid[index], self._group[index]

    def count_groups(self, namespaces: Iterable[str]) -> Counter[ChargeGroup]:
        """Count the pods of these namespaces that have not ended, by charge group."""
        counts: Counter[ChargeGroup] = Counter()
        for namespace in namespaces:
            counts.update(self._group_counts.get(namespace, _NO_COUNTS))
        return counts

    def count_groups_by_creation(self, namespaces: Iterable[str]) -> Counter[tuple[int, ChargeGroup]]:
        """Count the pods of these namespaces that have not ended, by time of creation and charge group."""
        created, groups = self._created, self._group
        return Counter([(created[index], groups[index]) for index in self._list_running(namespaces)])

    def count_groups_by_state(self, namespace: str) -> Iterator[tuple[ChargeGroup, bool, int]]:
        """Yield charge group, whether terminating, and number of pods of a namespace, without ended pods.

        Groups of terminating pods come last.
        """
        flags, groups, indexes = self._flags, self._group, self._indexes_by_namespace.get(namespace, ())
        terminating = Counter([groups[index] for index in indexes if flags[index] == _TERMINATING])
        for group, count in self._group_counts.get(namespace, _NO_COUNTS).items():
            if running := count - terminating.get(group, 0):
                yield group, False, running
        for group, count in terminating.items():
            yield group, True, count

    def list_pod_names(self, namespace: str, group: ChargeGroup, max_names: int, *, is_terminating: bool) -> list[str]:
        """Return the first `max_names` names of the pods of one namespace, charge group and state."""
        flags, state = self._flags, _TERMINATING * is_terminating
        indexes = (index for index in self._indexes_by_namespace.get(namespace, ()) if self._group[index] is group)
        return nsmallest(max_names, (self._name[index] for index in indexes if flags[index] == state))

    def _list_running(self, namespaces: Iterable[str]) -> Iterator[int]:
        flags = self._flags
        return (
            index
            for namespace in namespaces
            for index in self._indexes_by_namespace.get(namespace, ())
            if not flags[index] & _ENDED
        )

    def _add_to_count(self, index: int, change: int) -> None:
        """Add `change` to the number of pods of this pod's charge group, if it has one and has not ended."""
        group = self._group[index]
        if group is _NO_GROUP or self._flags[index] & _ENDED:
            return
        counts = self._group_counts.setdefault(self._namespace[index], {})
        if count := counts.get(group, 0) + change:
            counts[group] = count
            return
        del counts[group]
        if not counts:
            del self._group_counts[self._namespace[index]]

    def _allocate(self, record: PodRecord) -> int:
        namespace = record.namespace
        if self._free_indexes:
            index = self._free_indexes.pop()
            self._uid[index], self._namespace[index], self._name[index] = record.uid, namespace, record.name
        else:
            index = len(self._uid)
            self._uid.append(record.uid)
            self._position.append(0)
            self._namespace.append(namespace)
            self._name.append(record.name)
            self._node.append("")
            self._group.append(_NO_GROUP)
            self._revision.append(0)
            self._created.append(0)
            self._flags.append(0)
        self._index_by_uid[record.uid] = index
        self._indexes_by_name.setdefault(namespace, {})[self._name[index]] = index
        indexes = self._indexes_by_namespace.get(namespace)
        if indexes is None:
            indexes = self._indexes_by_namespace[namespace] = array("i")
        self._position[index] = len(indexes)
        indexes.append(index)
        return index

    def _remove_from_namespace(self, index: int) -> None:
        """Remove a pod from the array of its namespace; the last pod of the array takes its position."""
        namespace, position = self._namespace[index], self._position[index]
        names = self._indexes_by_name[namespace]
        if names.get(self._name[index]) == index:
            del names[self._name[index]]
        indexes = self._indexes_by_namespace[namespace]
        last = indexes.pop()
        if last != index:
            indexes[position] = last
            self._position[last] = position
        if not indexes:
            del self._indexes_by_namespace[namespace], self._indexes_by_name[namespace]

    def _read(self, index: int) -> StoredConsumer:
        flags = self._flags[index]
        return StoredConsumer(
            self._uid[index],
            self._namespace[index],
            self._name[index],
            self._node[index],
            self._revision[index],
            bool(flags & _ENDED),
            bool(flags & _TERMINATING),
            self._group[index],
            self._created[index],
        )
