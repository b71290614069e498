"""The pods of the cluster as of one revision: what is told is applied, what is asked is answered, by any thread."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.objects.core import Pod
from webhook.state.watch.columns import PodColumns, StoredPod
from webhook.state.watch.costs import NO_AMOUNTS, CapChargesCache, ChargeableCap, GroupCharges
from webhook.state.watch.deletions import DeletedPods, Tombstones
from webhook.state.watch.events import Bookmark, Changed, Deleted, Replaced, WatchEvent
from webhook.state.watch.pods import PodRecord, create_pod_codec, create_pod_record
from webhook.state.watch.shapes import ChargeGroup, ChargeGroupInterner

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
