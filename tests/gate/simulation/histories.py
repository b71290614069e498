"""The history of the objects of one resource: each revision, and the events that watches receive."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tallygate.kube.reflector import Freshness
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced, ResourceRecord, WatchEvent


class StoredObject(Protocol):
    """An object in the API server."""

    @property
    def uid(self) -> str:
        """Its UID."""
        ...

    def to_object(self) -> dict[str, Any]:
        """Return it as the API server sends it."""
        ...


T = TypeVar("T", bound=StoredObject)
R = TypeVar("R", bound=ResourceRecord)


class ObjectEvent(NamedTuple, Generic[T]):
    """A watch event; a deletion has the last state of the object."""

    revision: int
    kind: str
    item: T


@dataclass
class History(Generic[T]):
    """The objects of one resource by UID, now and at every revision."""

    stored: dict[str, T] = field(default_factory=dict)
    events: list[ObjectEvent[T]] = field(default_factory=list)
    _moments: list[tuple[int, Mapping[str, T]]] = field(default_factory=lambda: [(0, {})])

    def put(self, item: T, revision: int) -> None:
        """Store an object, which has this revision."""
        self.stored[item.uid] = item
        self._record(ObjectEvent(revision, "MODIFIED", item))

    def delete(self, item: T, revision: int) -> None:
        """Delete an object; the event has this state of it."""
        del self.stored[item.uid]
        self._record(ObjectEvent(revision, "DELETED", item))

    def list_at(self, revision: int) -> Mapping[str, T]:
        """Return the objects that were stored at a revision, by UID."""
        return self._moments[bisect_right(self._moments, revision, key=lambda moment: moment[0]) - 1][1]

    def _record(self, event: ObjectEvent[T]) -> None:
        self.events.append(event)
        self._moments.append((event.revision, dict(self.stored)))


class Watch(Generic[T, R]):
    """The watch of one resource in a replica, by its `name`: it lags, and lists again. `store` applies its events.

    `get_revision` returns the revision of the cluster, `clock` the time of the replica.
    """

    def __init__(  # noqa: PLR0913  # ports
        self,
        name: str,
        history: History[T],
        store: Callable[[WatchEvent[R]], None],
        line: Callable[[str, dict[str, Any]], WatchEvent[R]],
        page: Callable[..., Replaced[R]],
        *,
        get_revision: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self._history = history
        self._store = store
        self._line = line
        self._page = page
        self._get_revision = get_revision
        self._clock = clock
        self._position = 0
        self._freshness = Freshness()

    @property
    def confirmed_at(self) -> float | None:
        """The time at which the store was last known to be current."""
        return self._freshness.confirmed_at

    def relist(self) -> None:
        """List the objects by a quorum read, as after a 410."""
        started_at, revision = self._clock(), self._get_revision()
        self._store(self._page(revision, *(each.to_object() for each in self._history.stored.values())))
        self._position = len(self._history.events)
        self._freshness.record_list(revision, started_at)

    def receive(self, events: int) -> bool:
        """Receive the next events; return whether there were any."""
        received = self._history.events[self._position : self._position + events]
        for each in received:
            event = self._line(each.kind, each.item.to_object())
            assert isinstance(event, Changed | Deleted)
            self._store(event)
            self._freshness.record_event(each.revision)
        self._position += len(received)
        return bool(received)

    def request_progress(self) -> None:
        """Request the current revision of the cluster."""
        self._freshness.record_cluster_revision(self._get_revision(), self._clock())

    def receive_bookmark(self) -> bool:
        """Receive a bookmark if there are no more events; return whether it did."""
        if self._position < len(self._history.events):
            return False
        self._store(Bookmark(self._get_revision()))
        self._freshness.record_event(self._get_revision())
        return True

    def catch_up(self) -> None:
        """Receive every event, and the proof that there are no more."""
        self.request_progress()
        self.receive(len(self._history.events))
        self.receive_bookmark()
