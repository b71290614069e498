"""A store of the pods or claims of a cluster as of one revision, with their charges; any thread may use it.

Tombstones are the deletions that the watch has seen, as opposed to consumers that a list does not contain. The
reservation of a consumer with a tombstone can be released at once. The reservation of an absent one cannot, because the
API server may still store the object (docs/design/caps.md, recount). The number of tombstones is bounded: a consumer
whose tombstone was dropped counts as absent, which only delays the release.

The charge of a consumer under a cap is computed once for each cap and charge group.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, share_amounts
from tallygate.accounting.charge import Charge
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.result_cache import Fingerprint, compute_fingerprint
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced, WatchEvent
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.claim_records import ClaimGroup
from tallygate.state.informers.consumer_columns import ConsumerColumns, StoredConsumer
from tallygate.state.informers.pod_records import ChargeGroup, ChargeGroupInterner, PodRecord
from tallygate.state.informers.usage_sums import CapSums, ChangeCounts, GroupSums, GroupUsage, sum_groups

_MAX_TOMBSTONES = 65_536


class DeletedConsumers(NamedTuple):
    """The UIDs of deletions after a revision; `is_complete` unless some may have been dropped or missed."""

    uids: frozenset[str]
    is_complete: bool


class Tombstones:
    """The latest deletions, by UID. UIDs are never reused."""

    def __init__(self, max_size: int = _MAX_TOMBSTONES) -> None:
        self._max_size = max_size
        self._revisions: OrderedDict[str, int] = OrderedDict()
        self._complete_since = 0

    def add(self, uid: str, revision: int) -> None:
        """Add a deletion; revisions must increase."""
        self._revisions[uid] = revision
        if len(self._revisions) > self._max_size:
            self._complete_since = self._revisions.popitem(last=False)[1]

    def mark_incomplete_until(self, revision: int) -> None:
        """Record that a list replaced the watch up to `revision`, so deletions may be missing."""
        self._complete_since = max(self._complete_since, revision)

    def get_revision(self, uid: str) -> int | None:
        """Return the revision of a pod's deletion, or None if there is no tombstone."""
        return self._revisions.get(uid)

    def find_deleted(self, uids: frozenset[str]) -> frozenset[str]:
        """Return those of the UIDs that have a tombstone."""
        return frozenset(self._revisions.keys() & uids)

    def list_since(self, revision: int) -> DeletedConsumers:
        """Return the deletions after a revision."""
        uids: list[str] = []
        for uid in reversed(self._revisions):
            if self._revisions[uid] <= revision:
                break
            uids.append(uid)
        return DeletedConsumers(frozenset(uids), is_complete=revision >= self._complete_since)

    def clear(self) -> None:
        """Remove all tombstones, because the cluster is at an earlier revision and the old ones are invalid."""
        self._revisions.clear()
        self._complete_since = 0


_MAX_CAPS = 4096


class ChargeableCap(Protocol):
    """A cap that computes the charge of a pod or claim; the charge is empty if the cap does not count it."""

    def compute_charge(self, pod: Pod | None, fingerprint: Fingerprint | None = None) -> Charge:
        """Compute the charge of a pod; `fingerprint` is that of its spec, if the caller has computed it.

        Raises:
            QuantityError: if a quantity of the pod is invalid.
        """
        ...

    def compute_claim_charge(self, claim: ResourceClaim | None) -> Amounts:
        """Compute the charge of a claim."""
        ...


class GroupCharges:
    """The charges of all groups under one cap; None for a group with an invalid quantity."""

    def __init__(self, cap: ChargeableCap) -> None:
        self.cap = cap
        self.sums = CapSums()
        self._amounts_by_group: WeakKeyDictionary[ChargeGroup, Amounts | None] = WeakKeyDictionary()

    def get_amounts(self, group: ChargeGroup) -> Amounts | None:
        """Return the charge of a consumer of this group that has not ended."""
        try:
            return self._amounts_by_group[group]
        except KeyError:
            amounts = self._amounts_by_group[group] = self._compute_amounts(group)
            return amounts

    def _compute_amounts(self, group: ChargeGroup) -> Amounts | None:
        try:
            if isinstance(group, ClaimGroup):
                return share_amounts(self.cap.compute_claim_charge(group.to_claim()))
            pod = group.to_pod()
            fingerprint = compute_fingerprint(pod.spec) if pod.spec else None
            return share_amounts(self.cap.compute_charge(pod, fingerprint).amounts)
        except QuantityError:
            return None


class CapChargesCache:
    """The charges of the caps in use. New caps evict the caps of an earlier policy."""

    def __init__(self) -> None:
        self._charges_by_cap_id: OrderedDict[int, GroupCharges] = OrderedDict()

    def get_charges(self, cap: ChargeableCap) -> GroupCharges:
        """Return the charges under this cap. The key is its identity: an equal cap may count other names.

        `GroupCharges` refers to its cap, so no other cap can have the same `id` while the entry exists.
        """
        charges = self._charges_by_cap_id.get(id(cap))
        if charges is None:
            charges = self._charges_by_cap_id[id(cap)] = GroupCharges(cap)
        self._charges_by_cap_id.move_to_end(id(cap))
        if len(self._charges_by_cap_id) > _MAX_CAPS:
            self._charges_by_cap_id.popitem(last=False)
        return charges


NamespaceListener = Callable[[str | None], None]
"""A callback for the namespace whose usage may have changed; None for all. It must return soon and not raise."""


class NotSyncedError(LookupError):
    """The failure of a read before the first complete list."""


ConsumerName = tuple[str, str]
"""The namespace and the name of a pod or claim."""


class ConsumerUsage(msgspec.Struct, frozen=True):
    """The used amounts of one ledger, all as of `revision`.

    Nothing was stored after `last_change`. Something may have been deleted after it: a list does not show when.
    `used_by_consumer`: the counted amounts, possibly empty, of each requested consumer that is stored. `deleted`: the
    requested ones with a tombstone. A requested one in neither is absent: the API server may still store it. `holders`:
    the UIDs of the stored consumers that have the requested names, by namespace and name; `used_by_consumer` has them.
    `invalid`: the pods with an invalid quantity; their counted amounts are empty. `used_by_namespace`: the part of
    `used` of each namespace that was requested by itself.
    """

    revision: int
    used: Amounts
    used_by_consumer: Mapping[str, Amounts]
    deleted: frozenset[str]
    invalid: tuple[str, ...] = ()
    last_change: int = 0
    holders: Mapping[ConsumerName, str] = MappingProxyType({})
    used_by_namespace: Mapping[str, Amounts] = MappingProxyType({})

    def choose_revision(self, preferred: int) -> int:
        """Return the lowest revision from which nothing more was stored: `preferred`, where that is one."""
        return max(self.last_change, min(preferred, self.revision))


class UsageInputs(NamedTuple):
    """The state of a store at one moment, from which usage is computed without its lock."""

    revision: int
    last_change: int
    charges: GroupCharges
    members: frozenset[str]
    group_counts: Mapping[ChargeGroup, int]
    consumers: Mapping[str, StoredConsumer]
    deleted: frozenset[str]
    holders: Mapping[ConsumerName, str]
    counts_by_namespace: Mapping[str, Mapping[ChargeGroup, int]]


class ConsumerStore:
    """Pods or claims, updated by the events of a reflector."""

    def __init__(self, interner: ChargeGroupInterner) -> None:
        self._lock, self._sums_lock = Lock(), Lock()
        self._changes = ChangeCounts()
        self._interner = interner
        self._columns = ConsumerColumns()
        self._tombstones = Tombstones()
        self._charges_cache = CapChargesCache()
        self._revision: int | None = None
        self._last_change = 0
        self._listeners: list[NamespaceListener] = []

    def apply(self, event: WatchEvent[PodRecord]) -> None:
        """Apply an event; ignore an event that is not newer than `revision`."""
        if isinstance(event, Replaced):
            self._replace(event)
            self._notify(None)
            return
        with self._lock:
            is_usage_changed = self._apply_change(event)
        if is_usage_changed and not isinstance(event, Bookmark):
            self._notify(event.item.namespace)

    def add_listener(self, listener: NamespaceListener) -> None:
        """Add a listener. The thread that applies an event calls it."""
        self._listeners.append(listener)

    @property
    def revision(self) -> int | None:
        """Revision up to which the store is complete; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def group_count(self) -> int:
        """Number of different charge groups."""
        return len(self._interner)

    def find(self, uid: str) -> StoredConsumer | None:
        """Return one consumer, or None if it is not stored."""
        with self._lock:
            return self._columns.find(uid)

    def list_all(self, namespace: str) -> tuple[StoredConsumer, ...]:
        with self._lock:
            return tuple(self._columns.list_all(namespace))

    def list_namespaces(self) -> list[str]:
        with self._lock:
            return self._columns.list_namespaces()

    def has_running(self, namespace: str, name: str) -> bool:
        with self._lock:
            found = self._columns.find_named(namespace, name)
        return found is not None and not found.has_ended

    def get_deletion_revision(self, uid: str) -> int | None:
        """Return the revision of a consumer's deletion, or None if there is no tombstone."""
        with self._lock:
            return self._tombstones.get_revision(uid)

    def list_deleted_since(self, revision: int) -> DeletedConsumers:
        """Return the deletions after a revision, and whether they are complete."""
        with self._lock:
            return self._tombstones.list_since(revision)

    def compute_used_by_consumer(self, cap: ChargeableCap, namespaces: Iterable[str]) -> dict[str, Amounts]:
        """Compute the used amounts of each consumer of these namespaces under a cap, by UID, without empty ones.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            pods = list(self._columns.list_groups_by_uid(namespaces))
        return {uid: amounts for uid, group in pods if (amounts := charges.get_amounts(group))}

    def compute_usage(
        self,
        cap: ChargeableCap,
        namespaces: Iterable[str],
        uids: Iterable[str] = (),
        names: Iterable[ConsumerName] = (),
        separate: Collection[str] = (),
    ) -> ConsumerUsage:
        """Compute the used amounts of these namespaces under a cap, and the state of the consumers in `uids`.

        The consumers that have one of the `names` are requested, too. Each of the namespaces in `separate` is summed by
        itself, too, as of the same moment.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._lock:
            inputs = self._read_usage_inputs(cap, frozenset(namespaces), uids, names, separate)
        return self._sum_usage(inputs)

    def list_groups(self, cap: ChargeableCap, namespaces: Iterable[str]) -> Iterator[GroupUsage]:
        """Yield the consumers of these namespaces with used or invalid amounts under a cap, counted by group and state.

        Each namespace is read at its own time, so other threads wait for one namespace at most.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        charges = self._get_charges(cap)
        for namespace in namespaces:
            with self._lock:
                counts = list(self._columns.count_groups_by_state(namespace))
            yield from _charge_groups(namespace, counts, charges)

    def sum_groups(self, cap: ChargeableCap, namespaces: Collection[str]) -> GroupSums:
        """Return the sums over `list_groups`; those of the same namespaces again are computed where pods changed.

        They are the same if the collection is the same object, which does not change.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._sums_lock:
            charges = self._get_charges(cap)
            sums = charges.sums
            with self._lock:
                change, changed = self._changes.last, self._changes.list_since(sums.summed_at)
            return sums.sum_all(namespaces, partial(self._sum_namespace, charges), changed, change)

    def list_sums(self, cap: ChargeableCap, namespaces: Iterable[str]) -> list[tuple[str, GroupSums]]:
        """Return the sums over `list_groups` for each of these namespaces.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._sums_lock:
            charges = self._get_charges(cap)
            return [(namespace, self._sum_namespace(charges, namespace)) for namespace in namespaces]

    def _sum_namespace(self, charges: GroupCharges, namespace: str) -> GroupSums:
        """Return the kept sums of a namespace, or those that are computed now. Hold the lock of sums."""
        known = charges.sums.find(namespace, self._changes.get(namespace))
        if known is not None:
            return known
        with self._lock:
            change = self._changes.get(namespace)
            counts = list(self._columns.count_groups_by_state(namespace))
        sums = sum_groups(_charge_groups(namespace, counts, charges))
        charges.sums.put(namespace, change, sums)
        return sums

    def _get_charges(self, cap: ChargeableCap) -> GroupCharges:
        with self._lock:
            self._require_revision()
            return self._charges_cache.get_charges(cap)

    def list_amounts(
        self, cap: ChargeableCap, namespaces: Iterable[str], *, waiting_only: bool = False
    ) -> Iterator[tuple[StoredConsumer, Amounts | None]]:
        """Yield the consumers of these namespaces, each with the amounts that it uses under a cap until it has ended.

        With `waiting_only` those are left out that have a node or have ended.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            list_pods = self._columns.list_waiting if waiting_only else self._columns.list_all
            consumers = [consumer for namespace in namespaces for consumer in list_pods(namespace)]
        amounts_by_group = {group: charges.get_amounts(group) for group in {consumer.group for consumer in consumers}}
        return ((consumer, amounts_by_group[consumer.group]) for consumer in consumers)

    def list_amounts_by_creation(
        self, cap: ChargeableCap, namespaces: Iterable[str]
    ) -> Iterator[tuple[int, Amounts, int]]:
        """Yield times of creation, in seconds since 1970, amounts under a cap, and the number of consumers with both.

        Those of an unknown time, and those that count nothing, are left out.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            counts = self._columns.count_groups_by_creation(namespaces)
        amounts_by_group = {group: charges.get_amounts(group) for group in {group for _, group in counts}}
        for (created, group), number in counts.items():
            if created and (amounts := amounts_by_group[group]):
                yield created, amounts, number

    def list_charge_groups(self, namespaces: Iterable[str]) -> list[ChargeGroup]:
        with self._lock:
            return list(self._columns.count_groups(namespaces))

    def list_pod_names(self, group: GroupUsage, max_names: int) -> list[str]:
        """Return the first `max_names` names, in order, of the consumers of a group that are still stored."""
        with self._lock:
            return self._columns.list_pod_names(
                group.namespace, group.group, max_names, is_terminating=group.is_terminating
            )

    def _read_usage_inputs(
        self,
        cap: ChargeableCap,
        members: frozenset[str],
        uids: Iterable[str],
        names: Iterable[ConsumerName] = (),
        separate: Collection[str] = (),
    ) -> UsageInputs:
        """Return the inputs of `_sum_usage`. Hold the lock."""
        revision = self._require_revision()
        requested = frozenset(uids)
        holders = self._columns.find_all_named(names)
        consumers = self._columns.find_stored(requested) | {holder.uid: holder for holder in holders.values()}
        return UsageInputs(
            revision,
            self._last_change,
            self._charges_cache.get_charges(cap),
            members,
            self._columns.count_groups(members),
            consumers,
            self._tombstones.find_deleted(requested),
            {name: holder.uid for name, holder in holders.items()},
            {name: self._columns.count_groups((name,)) for name in separate},
        )

    def _sum_usage(self, inputs: UsageInputs) -> ConsumerUsage:
        """Compute the usage without the lock, because the first usage of a cap decodes every group."""
        charges, members = inputs.charges, inputs.members
        used, is_complete = _sum_charges(charges, inputs.group_counts)
        used_by_consumer = {
            uid: _get_counted_amounts(consumer, charges, members) for uid, consumer in inputs.consumers.items()
        }
        invalid = () if is_complete else self._list_invalid(charges, members)
        return ConsumerUsage(
            inputs.revision,
            used,
            used_by_consumer,
            inputs.deleted,
            invalid,
            inputs.last_change,
            inputs.holders,
            {name: _sum_charges(charges, counts)[0] for name, counts in inputs.counts_by_namespace.items()},
        )

    def _track(self, record: PodRecord, *, is_deleted: bool) -> bool:  # noqa: ARG002  # for subclasses
        """Track a change before the columns show it.

        Return whether used amounts may have changed though the charge group has not.
        """
        return False

    def _track_list(self, records: Iterable[PodRecord]) -> None:
        """Track a list before the columns show it."""

    def _apply_change(self, event: Changed[PodRecord] | Deleted[PodRecord] | Bookmark) -> bool:
        """Apply one event; return whether used amounts may have changed."""
        if self._revision is None or event.revision <= self._revision:
            return False
        self._revision = event.revision
        is_tracked_change = False
        if isinstance(event, (Changed, Deleted)):
            self._last_change = event.revision
            self._changes.record(event.item.namespace)
            is_tracked_change = self._track(event.item, is_deleted=isinstance(event, Deleted))
        if isinstance(event, Changed):
            return self._columns.put(event.item) or is_tracked_change
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
            raise NotSyncedError("pods or claims have not been listed yet")
        return self._revision

    def _replace(self, event: Replaced[PodRecord]) -> None:
        """Replace the columns. The new ones are built without the lock, so other threads wait for the exchange only."""
        columns = ConsumerColumns()
        for record in event.items:
            columns.put(record)
        with self._lock:
            if self._revision is not None and event.revision < self._revision:
                self._tombstones.clear()
            self._tombstones.mark_incomplete_until(event.revision)
            self._track_list(event.items)
            self._columns, self._revision = columns, event.revision
            self._changes.record_all()
            self._last_change = max((record.revision for record in event.items), default=0)


def _charge_groups(
    namespace: str, counts: Iterable[tuple[ChargeGroup, bool, int]], charges: GroupCharges
) -> Iterator[GroupUsage]:
    """Yield the groups of a namespace that use something, or whose quantities are invalid."""
    for group, is_terminating, pod_count in counts:
        if used_per_pod := charges.get_amounts(group):
            yield GroupUsage(namespace, group, is_terminating, pod_count, used_per_pod)
        elif used_per_pod is None:
            yield GroupUsage(namespace, group, is_terminating, pod_count, NO_AMOUNTS, is_valid=False)


def _sum_charges(charges: GroupCharges, group_counts: Mapping[ChargeGroup, int]) -> tuple[Amounts, bool]:
    """Sum the charges of `group_counts`, and return whether all groups are valid."""
    total: Counter[str] = Counter()
    is_complete = True
    for group, pod_count in group_counts.items():
        amounts = charges.get_amounts(group)
        is_complete = is_complete and amounts is not None
        for name, amount in (amounts or NO_AMOUNTS).items():
            total[name] += amount * pod_count
    return Amounts(total), is_complete


def _get_counted_amounts(pod: StoredConsumer, charges: GroupCharges, namespaces: Collection[str]) -> Amounts:
    """Return the counted amounts of one consumer: empty if it has ended or is in a namespace of another ledger."""
    if pod.has_ended or pod.namespace not in namespaces:
        return NO_AMOUNTS
    return charges.get_amounts(pod.group) or NO_AMOUNTS
