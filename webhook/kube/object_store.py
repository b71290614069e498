"""Stores of objects without a namespace: records by name, as of one revision, with listeners for changes."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from webhook.kube.resource_codec import Changed, Deleted, Replaced, ResourceRecord, WatchEvent


class ComparableRecord(ResourceRecord, Protocol):
    """A record with a compared value. A change of other fields notifies no listener."""

    @property
    def compared_value(self) -> object:
        """Value whose changes notify the listeners; compared by equality."""
        ...


R = TypeVar("R", bound=ComparableRecord)

NameListener = Callable[[frozenset[str]], None]
"""A callback for the names of created, deleted or changed objects, after the store shows them. It must return soon
and not raise."""


class ObjectStore(Generic[R]):
    """Records by name, updated by the events of a reflector."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._records: dict[str, R] = {}
        self._revision: int | None = None
        self._unchanged_since = 0
        self._generation = 0
        self._listeners: list[NameListener] = []

    @property
    def revision(self) -> int | None:
        """Revision up to which the store is complete; None before the first list."""
        return self._revision

    @property
    def unchanged_since(self) -> int:
        """Revision of the last change of a compared value, or of the last list."""
        return self._unchanged_since

    @property
    def generation(self) -> int:
        """Counter that grows with every change of a compared value."""
        return self._generation

    def __len__(self) -> int:
        return len(self._records)

    def find(self, name: str) -> R | None:
        """Return the record of this name, or None."""
        return self._records.get(name)

    def list_records(self) -> tuple[R, ...]:
        """Return all records, as of one moment."""
        with self._lock:
            return tuple(self._records.values())

    def add_listener(self, listener: NameListener) -> None:
        """Add a listener. The thread that applies an event calls it."""
        self._listeners.append(listener)

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply an event; ignore an event that is not newer than `revision`."""
        with self._lock:
            changed_names = self._replace(event) if isinstance(event, Replaced) else self._apply_change(event)
            self._generation += bool(changed_names)
            if self._revision is not None and (changed_names or isinstance(event, Replaced)):
                self._unchanged_since = event.revision
        if changed_names:
            for listener in self._listeners:
                listener(changed_names)

    def _replace(self, event: Replaced[R]) -> frozenset[str]:
        before, self._records = self._records, {record.name: record for record in event.items}
        self._revision = event.revision
        names = before.keys() | self._records.keys()
        return frozenset(name for name in names if _is_different(before.get(name), self._records.get(name)))

    def _apply_change(self, event: WatchEvent[R]) -> frozenset[str]:
        if self._revision is None or event.revision <= self._revision:
            return frozenset()
        self._revision = event.revision
        if isinstance(event, Changed):
            before, self._records[event.item.name] = self._records.get(event.item.name), event.item
            return frozenset({event.item.name} if _is_different(before, event.item) else ())
        if isinstance(event, Deleted) and self._records.pop(event.item.name, None) is not None:
            return frozenset({event.item.name})
        return frozenset()


def _is_different(before: ComparableRecord | None, after: ComparableRecord | None) -> bool:
    if before is None or after is None:
        return before is not after
    return before.uid != after.uid or before.compared_value != after.compared_value
