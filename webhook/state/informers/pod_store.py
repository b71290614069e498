"""The pods of the cluster as of one revision: what is told is applied, what is asked is answered, by any thread.

Deletions that a watch has seen, as opposed to pods that a list merely lacked.

A promise to a pod whose deletion was seen can be dropped at once; one to a pod that is absent cannot, since it may yet
come (docs/caps.md, recount). The memory is bounded: what is forgotten counts as absent, which only delays.

What pods cost under a cap, found once for each cap and shape.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.accounting.quantity_parser import QuantityError
from webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced, WatchEvent
from webhook.objects.core import Pod
from webhook.state.informers.pod_columns import PodColumns, StoredPod
from webhook.state.informers.pod_records import (
    ChargeGroup,
    ChargeGroupInterner,
    PodRecord,
    create_pod_codec,
    create_pod_record,
)

_MAX_TOMBSTONES = 65_536


class DeletedPods(NamedTuple):
    """UIDs whose deletion was seen after a revision; `is_whole` unless some may have been forgotten or missed."""

    uids: frozenset[str]
    is_complete: bool


class Tombstones:
    """The latest deletions, by UID. A UID never comes back."""

    def __init__(self, max_size: int = _MAX_TOMBSTONES) -> None:
        self._max_size = max_size
        self._revisions: OrderedDict[str, int] = OrderedDict()
        self._complete_since = 0

    def add(self, uid: str, revision: int) -> None:
        """A deletion was seen; revisions come in growing order."""
        self._revisions[uid] = revision
        if len(self._revisions) > self._max_size:
            self._complete_since = self._revisions.popitem(last=False)[1]

    def mark_incomplete_until(self, revision: int) -> None:
        """Up to here a list took the place of a watch, which may have kept deletions back."""
        self._complete_since = max(self._complete_since, revision)

    def get_revision(self, uid: str) -> int | None:
        """The revision of a pod's deletion, if it was seen and is remembered."""
        return self._revisions.get(uid)

    def list_since(self, revision: int) -> DeletedPods:
        """The deletions seen after a revision."""
        uids: list[str] = []
        for uid in reversed(self._revisions):
            if self._revisions[uid] <= revision:
                break
            uids.append(uid)
        return DeletedPods(frozenset(uids), is_complete=revision >= self._complete_since)

    def clear(self) -> None:
        """Begin anew: the cluster went back in time, and revisions mean something else now."""
        self._revisions.clear()
        self._complete_since = 0


_MAX_CAPS = 4096
NO_AMOUNTS = Amounts()


class ChargeableCap(Protocol):
    """A cap that can say what a pod holds under it: nothing if it does not count the pod."""

    def compute_charge(self, pod: Pod | None) -> Charge:
        """What this pod holds.

        Raises:
            QuantityError: one of its quantities is none.
        """
        ...


class GroupCharges:
    """What each shape costs under one cap; None for a shape with a quantity that cannot be read."""

    def __init__(self, cap: ChargeableCap) -> None:
        self.cap = cap
        self._amounts_by_group: WeakKeyDictionary[ChargeGroup, Amounts | None] = WeakKeyDictionary()

    def get_amounts(self, group: ChargeGroup) -> Amounts | None:
        """What a pod of this shape costs as long as it has not ended."""
        try:
            return self._amounts_by_group[group]
        except KeyError:
            amounts = self._amounts_by_group[group] = self._compute_amounts(group)
            return amounts

    def _compute_amounts(self, group: ChargeGroup) -> Amounts | None:
        try:
            return self.cap.compute_charge(group.to_pod()).amounts
        except QuantityError:
            return None


class CapChargesCache:
    """The costs of the caps in use: those of an earlier policy are forgotten as new ones come."""

    def __init__(self) -> None:
        self._charges_by_cap_id: OrderedDict[int, GroupCharges] = OrderedDict()

    def get_charges(self, cap: ChargeableCap) -> GroupCharges:
        """The costs under this cap, which is known by identity: an equal one may count other names.

        Its costs hold on to it, so that no other can have its identity as long as they are known.
        """
        charges = self._charges_by_cap_id.get(id(cap))
        if charges is None:
            charges = self._charges_by_cap_id[id(cap)] = GroupCharges(cap)
        self._charges_by_cap_id.move_to_end(id(cap))
        if len(self._charges_by_cap_id) > _MAX_CAPS:
            self._charges_by_cap_id.popitem(last=False)
        return charges


NamespaceListener = Callable[[str | None], None]
"""Is told the namespace in which what pods hold may have changed, None for every one. Quick, and does not raise."""


class NotSyncedError(LookupError):
    """Nothing is known yet: there was no whole list so far."""


class PodUsage(msgspec.Struct, frozen=True):
    """What one ledger's pods hold, all as of `revision`.

    Of the pods asked for, `there` says with what each is counted that is there, were it nothing; `deleted` are those
    whose deletion was seen. What is in neither is absent: not there, and nobody knows whether it may yet come.
    `unreadable` pods have a quantity that is none; they are counted with nothing.
    """

    revision: int
    used: Amounts
    used_by_pod: Mapping[str, Amounts]
    deleted: frozenset[str]
    invalid: tuple[str, ...] = ()


class GroupUsage(NamedTuple):
    """Pods of one namespace and shape: how many there are, and what each holds under a cap."""

    namespace: str
    group: ChargeGroup
    is_terminating: bool
    pod_count: int
    used_per_pod: Amounts


class PodStore:
    """Pods, kept current by the events of their reflector, which is to read them by `reading`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._interner = ChargeGroupInterner()
        self.codec = create_pod_codec(self._interner)
        self._columns = PodColumns()
        self._tombstones = Tombstones()
        self._charges_cache = CapChargesCache()
        self._revision: int | None = None
        self._listeners: list[NamespaceListener] = []

    def create_record(self, pod: Pod) -> PodRecord:
        """The row of a stored pod, for who reads more of it than `reading` does.

        Raises:
            ValueError: it lacks what every stored pod has.
        """
        return create_pod_record(pod, self._interner)

    def apply(self, event: WatchEvent[PodRecord]) -> None:
        """Take up what was told. What was told before is passed over."""
        if isinstance(event, Replaced):
            self._replace(event)
            self._notify(None)
            return
        with self._lock:
            is_usage_changed = self._apply_change(event)
        if is_usage_changed and not isinstance(event, Bookmark):
            self._notify(event.item.namespace)

    def add_listener(self, listener: NamespaceListener) -> None:
        """Tell it of changes from now on, in the thread that applies them."""
        self._listeners.append(listener)

    @property
    def revision(self) -> int | None:
        """Everything up to here is in; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def group_count(self) -> int:
        """How many different shapes the pods have."""
        return len(self._interner)

    def find(self, uid: str) -> StoredPod | None:
        """One pod, if it is there."""
        with self._lock:
            return self._columns.find(uid)

    def list_pods(self, namespace: str) -> tuple[StoredPod, ...]:
        """The pods of a namespace."""
        with self._lock:
            return tuple(self._columns.list_pods(namespace))

    def get_deletion_revision(self, uid: str) -> int | None:
        """The revision of a pod's deletion, if this watch saw it and still remembers."""
        with self._lock:
            return self._tombstones.get_revision(uid)

    def list_deleted_since(self, revision: int) -> DeletedPods:
        """The pods whose deletion was seen after a revision, and whether those are all."""
        with self._lock:
            return self._tombstones.list_since(revision)

    def compute_used_by_pod(self, cap: ChargeableCap, namespaces: Iterable[str]) -> dict[str, Amounts]:
        """What each pod of these namespaces holds under a cap, by UID; pods that hold nothing are left out.

        Raises:
            NotListedError: nothing is known yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            pods = list(self._columns.list_groups_by_uid(namespaces))
        return {uid: amounts for uid, group in pods if (amounts := charges.get_amounts(group))}

    def compute_usage(self, cap: ChargeableCap, namespaces: Iterable[str], uids: Iterable[str] = ()) -> PodUsage:
        """What the pods of these namespaces hold together under a cap, and how it stands with the pods asked for.

        Raises:
            NotListedError: nothing is known yet.
        """
        members = frozenset(namespaces)
        with self._lock:
            revision = self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            group_counts = self._columns.count_groups(members)
            pods = {uid: self._columns.find(uid) for uid in uids}
            deleted = frozenset(uid for uid in pods if self._tombstones.get_revision(uid) is not None)
        # What costs time is done without the lock: the first count of a cap reads every shape.
        used, is_complete = _sum_charges(charges, group_counts)
        used_by_pod = {uid: _get_counted_amounts(pod, charges, members) for uid, pod in pods.items() if pod is not None}
        return PodUsage(
            revision, used, used_by_pod, deleted, () if is_complete else self._list_invalid(charges, members)
        )

    def list_groups(self, cap: ChargeableCap, namespaces: Iterable[str]) -> Iterator[GroupUsage]:
        """The pods of these namespaces that hold something under a cap, counted by what they have in common.

        One namespace after the other, each as it is then: nobody waits for the whole.

        Raises:
            NotListedError: nothing is known yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
        amounts_by_group: dict[ChargeGroup, Amounts | None] = {}
        for namespace in namespaces:
            with self._lock:
                counts = list(self._columns.count_groups_by_state(namespace))
            for group, is_terminating, pod_count in counts:
                if group not in amounts_by_group:
                    amounts_by_group[group] = charges.get_amounts(group)
                if used_per_pod := amounts_by_group[group]:
                    yield GroupUsage(namespace, group, is_terminating, pod_count, used_per_pod)

    def list_pod_names(self, group: GroupUsage, max_names: int) -> list[str]:
        """The names of so many of a heap's pods, the first in order, as far as they are still there."""
        with self._lock:
            return self._columns.list_pod_names(
                group.namespace, group.group, max_names, is_terminating=group.is_terminating
            )

    def _apply_change(self, event: Changed[PodRecord] | Deleted[PodRecord] | Bookmark) -> bool:
        """Apply one event; whether what anybody holds may be another than before."""
        if self._revision is None or event.revision <= self._revision:
            return False
        self._revision = event.revision
        if isinstance(event, Changed):
            return self._columns.put(event.item)
        if isinstance(event, Deleted):
            self._tombstones.add(event.item.uid, event.revision)
            self._columns.remove(event.item.uid)
            return True
        return False

    def _notify(self, namespace: str | None) -> None:
        for listener in self._listeners:
            listener(namespace)

    def _list_invalid(self, charges: GroupCharges, members: frozenset[str]) -> tuple[str, ...]:
        with self._lock:
            pods = list(self._columns.list_groups_by_uid(members))
        return tuple(uid for uid, group in pods if charges.get_amounts(group) is None)

    def _require_revision(self) -> int:
        if self._revision is None:
            raise NotSyncedError("pods have not been listed yet")
        return self._revision

    def _replace(self, event: Replaced[PodRecord]) -> None:
        """Build the new columns beside the old ones, so that nobody waits for more than the change."""
        columns = PodColumns()
        for record in event.items:
            columns.put(record)
        with self._lock:
            if self._revision is not None and event.revision < self._revision:
                self._tombstones.clear()
            self._tombstones.mark_incomplete_until(event.revision)
            self._columns, self._revision = columns, event.revision


def _sum_charges(charges: GroupCharges, group_counts: Mapping[ChargeGroup, int]) -> tuple[Amounts, bool]:
    """What so many pods of each shape hold together, and whether all of them could be read."""
    total: Counter[str] = Counter()
    is_complete = True
    for group, pod_count in group_counts.items():
        amounts = charges.get_amounts(group)
        is_complete = is_complete and amounts is not None
        for name, amount in (amounts or NO_AMOUNTS).items():
            total[name] += amount * pod_count
    return Amounts(total), is_complete


def _get_counted_amounts(pod: StoredPod, charges: GroupCharges, namespaces: Collection[str]) -> Amounts:
    """What one pod is counted with: nothing when it has ended or is in another ledger's namespace."""
    if pod.has_ended or pod.namespace not in namespaces:
        return NO_AMOUNTS
    return charges.get_amounts(pod.group) or NO_AMOUNTS
