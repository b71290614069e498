"""Namespaces as they are now: their labels, and which of them a cap speaks of."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from webhook.objects.core import Namespace
from webhook.state.watch.named import ObjectStore
from webhook.state.watch.wire import ResourceCodec, parse_revision

_MAX_SELECTIONS = 4096

Labels = Mapping[str, str]


class NamespaceRecord(msgspec.Struct, frozen=True):
    """One namespace. One that is being deleted still is one."""

    uid: str
    name: str
    revision: int
    labels: Labels
    namespace: str = ""

    @property
    def compared_value(self) -> object:
        """What policies select by."""
        return self.labels


class MemberNamespaces(NamedTuple):
    """The namespaces that are selected, as of a revision, and of every one since `settled`."""

    names: frozenset[str]
    revision: int
    unchanged_since: int


class NamespaceStore(ObjectStore[NamespaceRecord]):
    """A live `NamespaceLister`: knows every namespace as of its revision, and none before the first list."""

    def __init__(self) -> None:
        super().__init__()
        self._selections: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()

    def labels(self, namespace: str) -> Labels | None:
        """The namespace's labels, or None when it is not known."""
        record = self.find(namespace)
        return None if record is None else record.labels

    def list_members(self, key: str, is_selected: Callable[[str, Labels], bool]) -> MemberNamespaces | None:
        """The namespaces that `selects` says yes to, given name and labels; None before the first list.

        Remembered under `key` until a namespace comes, goes or changes its labels, so the same key must always stand
        for the same question.
        """
        with self._lock:
            if self._revision is None:
                return None
            selection = self._selections.get(key)
            if selection is None or selection[0] != self._generation:
                names = frozenset(
                    record.name for record in self._records.values() if is_selected(record.name, record.labels)
                )
                selection = self._selections[key] = (self._generation, names)
            self._selections.move_to_end(key)
            if len(self._selections) > _MAX_SELECTIONS:
                self._selections.popitem(last=False)
            return MemberNamespaces(selection[1], self._revision, self._unchanged_since)


def create_namespace_record(namespace: Namespace) -> NamespaceRecord:
    """The row of a stored namespace.

    Raises:
        ValueError: it lacks what every stored namespace has.
    """
    meta = namespace.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a namespace without uid or name")
    labels = MappingProxyType(meta.labels or {})
    return NamespaceRecord(meta.uid, meta.name, parse_revision(meta.resource_version or ""), labels)


NAMESPACE_CODEC = ResourceCodec("namespaces", "/api/v1/namespaces", Namespace, create_namespace_record)
