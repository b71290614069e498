"""Namespaces as they are now: their labels, and which of them a cap speaks of."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from webhook.objects.core import Namespace
from webhook.state.watch.named import Named
from webhook.state.watch.wire import Reading, revision_of

_MOST_SETS = 4096

Labels = Mapping[str, str]


class NamespaceRow(msgspec.Struct, frozen=True):
    """One namespace. One that is being deleted still is one."""

    uid: str
    name: str
    revision: int
    labels: Labels
    namespace: str = ""

    @property
    def substance(self) -> object:
        """What policies select by."""
        return self.labels


class Members(NamedTuple):
    """The namespaces that are selected, as of a revision, and of every one since `settled`."""

    names: frozenset[str]
    revision: int
    settled: int


class NamespaceView(Named[NamespaceRow]):
    """A live `NamespaceLister`: knows every namespace as of its revision, and none before the first list."""

    def __init__(self) -> None:
        super().__init__()
        self._sets: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()

    def labels(self, namespace: str) -> Labels | None:
        """The namespace's labels, or None when it is not known."""
        row = self.row(namespace)
        return None if row is None else row.labels

    def members(self, key: str, selects: Callable[[str, Labels], bool]) -> Members | None:
        """The namespaces that `selects` says yes to, given name and labels; None before the first list.

        Remembered under `key` until a namespace comes, goes or changes its labels, so the same key must always stand
        for the same question.
        """
        with self._lock:
            if self._revision is None:
                return None
            known = self._sets.get(key)
            if known is None or known[0] != self._generation:
                names = frozenset(row.name for row in self._rows.values() if selects(row.name, row.labels))
                known = self._sets[key] = (self._generation, names)
            self._sets.move_to_end(key)
            if len(self._sets) > _MOST_SETS:
                self._sets.popitem(last=False)
            return Members(known[1], self._revision, self._settled)


def digest(namespace: Namespace) -> NamespaceRow:
    """The row of a stored namespace.

    Raises:
        ValueError: it lacks what every stored namespace has.
    """
    meta = namespace.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a namespace without uid or name")
    labels = MappingProxyType(meta.labels or {})
    return NamespaceRow(meta.uid, meta.name, revision_of(meta.resource_version or ""), labels)


NAMESPACES = Reading("namespaces", "/api/v1/namespaces", Namespace, digest)
