"""The pods of the cluster as of one revision: what is told is applied, what is asked is answered, by any thread."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.objects.core import Pod
from webhook.state.watch.columns import Columns, Place
from webhook.state.watch.costs import NOTHING, Caps, Costs, Counts
from webhook.state.watch.deletions import Deletions, Seen
from webhook.state.watch.events import Bookmark, Changed, Deleted, Event, Replaced
from webhook.state.watch.pods import PodRow, digest, reading
from webhook.state.watch.shapes import Shape, Shapes

Listener = Callable[[str | None], None]
"""Is told the namespace in which what pods hold may have changed, None for every one. Quick, and does not raise."""


class NotListedError(LookupError):
    """Nothing is known yet: there was no whole list so far."""


class Count(msgspec.Struct, frozen=True):
    """What one ledger's pods hold, all as of `revision`.

    Of the pods asked for, `there` says with what each is counted that is there, were it nothing; `deleted` are those
    whose deletion was seen. What is in neither is absent: not there, and nobody knows whether it may yet come.
    `unreadable` pods have a quantity that is none; they are counted with nothing.
    """

    revision: int
    tally: Amounts
    there: Mapping[str, Amounts]
    deleted: frozenset[str]
    unreadable: tuple[str, ...] = ()


class Heap(NamedTuple):
    """Pods of one namespace and shape: how many there are, and what each holds under a cap."""

    namespace: str
    shape: Shape
    is_terminating: bool
    pods: int
    each: Amounts


class PodView:
    """Pods, kept current by the events of their reflector, which is to read them by `reading`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shapes = Shapes()
        self.reading = reading(self._shapes)
        self._columns = Columns()
        self._deletions = Deletions()
        self._caps = Caps()
        self._revision: int | None = None
        self._listeners: list[Listener] = []

    def digest(self, pod: Pod) -> PodRow:
        """The row of a stored pod, for who reads more of it than `reading` does.

        Raises:
            ValueError: it lacks what every stored pod has.
        """
        return digest(pod, self._shapes)

    def apply(self, event: Event[PodRow]) -> None:
        """Take up what was told. What was told before is passed over."""
        if isinstance(event, Replaced):
            self._replace(event)
            self._tell(None)
            return
        with self._lock:
            matters = self._change(event)
        if matters and not isinstance(event, Bookmark):
            self._tell(event.item.namespace)

    def listen(self, listener: Listener) -> None:
        """Tell it of changes from now on, in the thread that applies them."""
        self._listeners.append(listener)

    @property
    def revision(self) -> int | None:
        """Everything up to here is in; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def shapes(self) -> int:
        """How many different shapes the pods have."""
        return len(self._shapes)

    def find(self, uid: str) -> Place | None:
        """One pod, if it is there."""
        with self._lock:
            return self._columns.find(uid)

    def within(self, namespace: str) -> tuple[Place, ...]:
        """The pods of a namespace."""
        with self._lock:
            return tuple(self._columns.within(namespace))

    def deleted_at(self, uid: str) -> int | None:
        """The revision of a pod's deletion, if this watch saw it and still remembers."""
        with self._lock:
            return self._deletions.at(uid)

    def deleted_since(self, revision: int) -> Seen:
        """The pods whose deletion was seen after a revision, and whether those are all."""
        with self._lock:
            return self._deletions.since(revision)

    def held(self, cap: Counts, namespaces: Iterable[str]) -> dict[str, Amounts]:
        """What each pod of these namespaces holds under a cap, by UID; pods that hold nothing are left out.

        Raises:
            NotListedError: nothing is known yet.
        """
        with self._lock:
            self._known()
            costs = self._caps.of(cap)
            pods = list(self._columns.costing(namespaces))
        return {uid: cost for uid, shape in pods if (cost := costs.of(shape))}

    def count(self, cap: Counts, namespaces: Iterable[str], uids: Iterable[str] = ()) -> Count:
        """What the pods of these namespaces hold together under a cap, and how it stands with the pods asked for.

        Raises:
            NotListedError: nothing is known yet.
        """
        members = frozenset(namespaces)
        with self._lock:
            revision = self._known()
            costs = self._caps.of(cap)
            shapes = self._columns.shapes(members)
            places = {uid: self._columns.find(uid) for uid in uids}
            deleted = frozenset(uid for uid in places if self._deletions.at(uid) is not None)
        # What costs time is done without the lock: the first count of a cap reads every shape.
        tally, is_whole = _tally(costs, shapes)
        there = {uid: _counted(place, costs, members) for uid, place in places.items() if place is not None}
        return Count(revision, tally, there, deleted, () if is_whole else self._unreadable(costs, members))

    def heaps(self, cap: Counts, namespaces: Iterable[str]) -> Iterator[Heap]:
        """The pods of these namespaces that hold something under a cap, counted by what they have in common.

        One namespace after the other, each as it is then: nobody waits for the whole.

        Raises:
            NotListedError: nothing is known yet.
        """
        with self._lock:
            self._known()
            costs = self._caps.of(cap)
        known: dict[Shape, Amounts | None] = {}
        for namespace in namespaces:
            with self._lock:
                found = list(self._columns.heaps(namespace))
            for shape, is_terminating, pods in found:
                if shape not in known:
                    known[shape] = costs.of(shape)
                if each := known[shape]:
                    yield Heap(namespace, shape, is_terminating, pods, each)

    def named(self, heap: Heap, most: int) -> list[str]:
        """The names of so many of a heap's pods, the first in order, as far as they are still there."""
        with self._lock:
            return self._columns.named(heap.namespace, heap.shape, most, is_terminating=heap.is_terminating)

    def _change(self, event: Changed[PodRow] | Deleted[PodRow] | Bookmark) -> bool:
        """Apply one event; whether what anybody holds may be another than before."""
        if self._revision is None or event.revision <= self._revision:
            return False
        self._revision = event.revision
        if isinstance(event, Changed):
            return self._columns.put(event.item)
        if isinstance(event, Deleted):
            self._deletions.seen(event.item.uid, event.revision)
            self._columns.remove(event.item.uid)
            return True
        return False

    def _tell(self, namespace: str | None) -> None:
        for listener in self._listeners:
            listener(namespace)

    def _unreadable(self, costs: Costs, members: frozenset[str]) -> tuple[str, ...]:
        with self._lock:
            pods = list(self._columns.costing(members))
        return tuple(uid for uid, shape in pods if costs.of(shape) is None)

    def _known(self) -> int:
        if self._revision is None:
            raise NotListedError("pods have not been listed yet")
        return self._revision

    def _replace(self, event: Replaced[PodRow]) -> None:
        """Build the new columns beside the old ones, so that nobody waits for more than the change."""
        columns = Columns()
        for row in event.items:
            columns.put(row)
        with self._lock:
            if self._revision is not None and event.revision < self._revision:
                self._deletions.forget()
            self._deletions.missed_until(event.revision)
            self._columns, self._revision = columns, event.revision


def _tally(costs: Costs, shapes: Mapping[Shape, int]) -> tuple[Amounts, bool]:
    """What so many pods of each shape hold together, and whether all of them could be read."""
    total: Counter[str] = Counter()
    is_whole = True
    for shape, pods in shapes.items():
        cost = costs.of(shape)
        is_whole = is_whole and cost is not None
        for name, amount in (cost or NOTHING).items():
            total[name] += amount * pods
    return Amounts(total), is_whole


def _counted(place: Place, costs: Costs, namespaces: Collection[str]) -> Amounts:
    """What one pod is counted with: nothing when it has ended or is in another ledger's namespace."""
    if place.has_ended or place.namespace not in namespaces:
        return NOTHING
    return costs.of(place.shape) or NOTHING
