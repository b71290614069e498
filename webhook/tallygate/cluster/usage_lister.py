"""Lister of the cluster for the gate: the member namespaces of a cap, and the amounts that are used in them under it.

Pods and claims for devices use amounts. A claim that kube-scheduler made for a pod is not counted besides the pod.

It reads the stores that watches update. A store may be behind the cluster. Therefore a ledger records the revisions
from which it was counted, and no older snapshot replaces them (docs/design/caps.md, rule 4).

The used amounts of the claims for devices under one ledger, for a recount.

A claim that kube-scheduler made for a pod is not counted in addition to the pod, except under names that count devices
by attributes or capacities: a pod has nothing under these.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.accounting.devices.device_meter import DeviceId, KnownDevice
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.class_view import UnseenClass
from tallygate.cluster.consumers import (
    AllocatedUsage,
    ClaimSources,
    ConsumerAmounts,
    compute_remainders,
    count_allocated,
    list_consumers,
)
from tallygate.cluster.membership import Membership, MembershipFinder
from tallygate.objects.core import Pod
from tallygate.state.informers.claim_records import ClaimGroup
from tallygate.state.informers.claim_store import ClaimStore, OwnedClaim
from tallygate.state.informers.consumer_store import ConsumerUsage, NotSyncedError
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.named_stores import Labels, NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.usage_sums import GroupUsage
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import PodName, UsageSnapshot
from tallygate.state.ports import LedgerKey

_MAX_READS = 3
_NOTHING_ALLOCATED = AllocatedUsage()


class ClaimsUsage(NamedTuple):
    """The claims under a ledger: their used amounts, and the part of these that may be counted twice.

    `served` are the pods for which kube-scheduler seems to have made one of these claims. `used_by_namespace` is the
    part of `used` of each namespace that was counted by itself.
    """

    revision: int
    used: Amounts = NO_AMOUNTS
    unconfirmed: Amounts = NO_AMOUNTS
    by_uid: Mapping[str, Amounts] = {}
    deleted: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    allocated: AllocatedUsage = _NOTHING_ALLOCATED
    used_by_namespace: Mapping[str, Amounts] = {}


def needs_claims(cap: ActiveCap, ledger: Ledger) -> bool:
    """Return whether a recount of the ledger reads claims.

    A ledger keeps reservations of claims after the last class of a name was removed.
    """
    return cap.counts_claims or any(
        reservation.kind is ConsumerKind.CLAIM for reservation in ledger.reservations.values()
    )


def count_claims(
    cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, sources: ClaimSources, separate: Collection[str] = ()
) -> ClaimsUsage | None:
    """Return the usage of claims at one revision; None if slices are too old, or claims change all the time.

    Raises:
        NotSyncedError: if there was no complete list yet.
    """
    pods, claims, devices = sources
    for _ in range(_MAX_READS):
        usage, owned = claims.compute_usage_and_owned(cap, namespaces, ledger.reservations, separate)
        allocated = _NOTHING_ALLOCATED
        if cap.device_meters:
            allocated = count_allocated(cap, claims, devices, namespaces, ledger)
            if allocated.is_behind:
                return None
        if not cap.device_meters or claims.choose_revision(0) == usage.choose_revision(0):
            return _sum_claims(cap, ledger, pods, (usage, owned), allocated)
    return None


def _sum_claims(
    cap: ActiveCap,
    ledger: Ledger,
    pods: PodStore,
    claims: tuple[ConsumerUsage, Mapping[str, OwnedClaim]],
    allocated: AllocatedUsage,
) -> ClaimsUsage:
    """Return the sum of claims without those of the scheduler whose pods count, and of allocated devices."""
    usage, owned = claims
    remainders = compute_remainders(cap, owned, pods)
    used, unconfirmed, by_uid = usage.used, NO_AMOUNTS, dict(usage.used_by_consumer)
    by_namespace = dict(usage.used_by_namespace)
    for uid, owned_claim in owned.items():
        if uid in remainders:
            used = used - owned_claim.amounts + remainders[uid]
            _add_to(by_namespace, owned_claim.owner.namespace, remainders[uid] - owned_claim.amounts)
            if uid in by_uid:
                by_uid[uid] = remainders[uid]
        elif owned_claim.is_young:
            unconfirmed += owned_claim.amounts
    for uid, namespace in allocated.namespaces.items() if by_namespace else ():
        counted = {name: amount for name, amount in allocated.by_uid[uid].items() if name not in allocated.uncounted}
        _add_to(by_namespace, namespace, counted)
    if allocated.by_uid:
        by_uid = {uid: amounts + allocated.by_uid.get(uid, NO_AMOUNTS) for uid, amounts in by_uid.items()}
    return ClaimsUsage(
        usage.choose_revision(ledger.claims_revision),
        used + allocated.used,
        unconfirmed,
        by_uid,
        usage.deleted,
        frozenset(owned_claim.owner.pod_uid for owned_claim in owned.values()),
        allocated,
        by_namespace,
    )


def _add_to(by_namespace: dict[str, Amounts], namespace: str, amounts: Mapping[str, int]) -> None:
    if namespace in by_namespace:
        by_namespace[namespace] += amounts


_NEW_NAMESPACE_SECONDS = 60.0
_PROGRESS_INTERVAL_SECONDS = 5.0
_SILENT_SECONDS = 20.0  # where pods are created and deleted, a store is confirmed as current every fifteen seconds
_NO_LEDGER = Ledger(NO_AMOUNTS)


def get_ledger_key(cap: ActiveCap, namespace: str) -> LedgerKey:
    """Return the key of the ledger that counts the pods of one namespace under a cap."""
    return LedgerKey(cap.key, "" if cap.definition.shared else namespace)


class CountedRevisions(NamedTuple):
    """Revisions at which pods and claims are counted, or must be counted at least."""

    pods: int
    claims: int


_UNKNOWN_REVISIONS = CountedRevisions(2**63, 2**63)
"""Above every revision, which etcd counts in an int64."""


class UsageLister:
    """A lister of usage by cap and ledger, for any thread.

    `monotonic` is in seconds. `synced_at` returns the time of that clock since which pods, claims and namespaces are
    known to be as the stores show them, None before they were listed, `pods_synced_at` the same without claims.
    `request_progress` requests a confirmation soon.
    """

    def __init__(  # noqa: PLR0913  # stores and ports
        self,
        pods: PodStore,
        namespaces: NamespaceStore,
        monotonic: Callable[[], float],
        synced_at: Callable[[], float | None],
        request_progress: Callable[[], None] = lambda: None,
        *,
        pods_synced_at: Callable[[], float | None] | None = None,
        claims: ClaimStore | None = None,
        devices: DeviceStore | None = None,
    ) -> None:
        self._pods = pods
        self._claims = ClaimStore(monotonic) if claims is None else claims
        self._devices = DeviceStore(self._claims.list_devices) if devices is None else devices
        self._sources = ClaimSources(pods, self._claims, self._devices)
        self._namespaces = namespaces
        self._memberships = MembershipFinder(namespaces)
        self._monotonic = monotonic
        self.synced_at = synced_at
        self._pods_synced_at = pods_synced_at or synced_at
        self._request_progress = request_progress
        self._progress_requested_at = -math.inf
        self._active_since: dict[str, float] = {}
        self._first_active_at = math.inf
        self._removed_since: dict[str, float] = {}  # for the caps that the last policy change removed
        self._required_revisions: dict[tuple[str, bool], tuple[float, CountedRevisions]] = {}
        self._namespace_uids: dict[str, str] | None = None
        self._created_at: dict[str, float] = {}
        self._deleted_at: dict[str, float] = {}  # namespaces whose deletion was seen, and no new creation since
        self._former_labels: dict[str, list[tuple[float, Labels]]] = {}
        """By namespace, the labels that it had until a time in the last minute."""
        self._labels: dict[str, Labels] = {}
        self._existing_ledgers: dict[LedgerKey, bool] = {}  # and whether they were ever active
        namespaces.add_listener(self._update_namespaces)

    @property
    def is_listed(self) -> bool:
        """Whether the pods were listed: before that no ledger can be counted."""
        return self._pods.revision is not None

    def set_active_caps(self, caps: Collection[str], *, is_first: bool = False) -> None:
        """Set the active keys of the caps from now on, before anything is charged under them.

        As long as this process has reviewed nothing (`is_first`), they are active since the first call: it learns the
        device classes, which are a part of these keys, after its start.
        """
        now, before = self._monotonic(), self._active_since
        if is_first:
            now = self._first_active_at = min(now, self._first_active_at)
        self._removed_since = {cap: at for cap, at in before.items() if cap not in caps}
        self._active_since = {cap: before.get(cap, now) for cap in caps}

    def get_required_revisions(self, active_cap: ActiveCap) -> CountedRevisions:
        """Return the lowest revisions at which a ledger may be counted for this process to charge a cap with it.

        At these revisions everything is stored that existed before the cap became active here: it was accepted
        uncounted. A ledger may be older than the cap, if the cap was removed from the policies and put back.
        """
        cap = active_cap.active_key
        # a request that is in progress while its cap is removed still charges it
        active_since = self._active_since.get(cap, self._removed_since.get(cap))
        if active_since is None:
            return _UNKNOWN_REVISIONS
        counted = cap, active_cap.counts_claims  # it may count them by the former mappings of a ledger alone
        known_active_since, required = self._required_revisions.get(counted, (active_since, None))
        if required is not None and known_active_since == active_since:
            pods = self._pods.revision or 0
            if required.pods <= pods and not required.claims:
                return required
            # a cluster restored from a backup goes back
            return CountedRevisions(min(required.pods, pods), min(required.claims, self._get_claims_revision()))
        synced_at = self.synced_at() if active_cap.counts_claims else self._pods_synced_at()
        revision = self._pods.revision
        if revision is None or synced_at is None or synced_at < active_since:
            self.request_progress()
            return _UNKNOWN_REVISIONS
        revisions = CountedRevisions(revision, self._get_claims_revision() if active_cap.counts_claims else 0)
        self._required_revisions[counted] = active_since, revisions
        return revisions

    def _get_claims_revision(self) -> int:
        """Return the lowest revision from which no claim was stored; 0 if there are none."""
        return self._claims.choose_revision(0)

    def find_membership(self, cap: ActiveCap, key: LedgerKey) -> Membership | None:
        """Return the member namespaces of a ledger; None before namespaces are listed."""
        return self._memberships.find(cap, key)

    def list_ledger_keys(self, cap: ActiveCap) -> Collection[LedgerKey] | None:
        """Return the keys of the ledgers with members, of all groups of a cap; None before namespaces are listed."""
        members = self._memberships.list_members_by_cap(cap)
        if members is None:
            return None
        return {get_ledger_key(each, name) for each, names in members for name in names}

    def list_groups_of(self, caps: CapIndex, namespace: str) -> Iterator[ActiveCap]:
        """Return an iterator over the caps of groups that count a namespace by its labels."""
        labels = self._namespaces.labels(namespace)
        return iter(()) if labels is None else caps.list_groups(namespace, labels)

    def is_namespace_deleted(self, key: LedgerKey) -> bool:
        """Return whether the ledger belongs to a namespace that the namespace store does not contain."""
        is_synced = self._namespaces.revision is not None
        return is_synced and bool(key.namespace) and not self.has_namespace(key.namespace)

    def has_namespace(self, namespace: str) -> bool:
        """Return whether the namespace store contains the namespace.

        If it does not, and the namespace has pods, the namespace store is behind the pod store: a new namespace of that
        name exists.
        """
        return self._namespaces.find(namespace) is not None

    def take_snapshot(
        self, cap: ActiveCap, key: LedgerKey, ledger: Ledger, pod_uid: str = "", created: PodName | None = None
    ) -> UsageSnapshot | None:
        """Return the usage under a ledger, by consumer for each reservation, and for the pods of scheduler's claims.

        It has the stored pods that have the name of a pod with a reservation, or that of the pod that is `created`.
        It is counted by the mappings of device classes that the ledger has, besides the present ones. Return None
        before the cluster was listed, and as long as slices are older than a claim with an unknown device.
        """
        membership, cap = self.find_membership(cap, key), cap.with_former(ledger.mappings)
        if membership is None:
            return None
        own = cap.resolve_guarantees(membership.names)
        separate = (own.keys() | ledger.guarantees.amounts.keys()) & membership.names
        pod_uids = {ledger.reservations[uid].pod_uid for uid in ledger.linked} | {pod_uid}
        names = [(namespace, name) for namespace, kind, name in ledger.attempts_by_name if kind is ConsumerKind.POD]
        if created is not None:
            names.append(created)
        try:
            uids = {*ledger.reservations, *pod_uids} - {""}
            count = self._pods.compute_usage(cap, membership.names, uids, names, separate)
            claims = self._count_claims(cap, membership.names, ledger, separate)
        except NotSyncedError:
            return None
        if claims is None:
            self.request_progress()
            return None
        if self._is_inconsistent(cap, key):
            return None
        missing = {name for name in ledger.numbers_by_namespace if not self.has_namespace(name)}
        used_by_consumer = {**count.used_by_consumer, **claims.by_uid} if claims.by_uid else count.used_by_consumer
        return UsageSnapshot(
            pods_revision=count.revision,
            namespaces_revision=membership.choose_revision(ledger.namespaces_revision),
            namespaces_hash=membership.hash,
            resources=cap.counted,
            used_by_consumer=_exclude_namespaces(used_by_consumer, ledger, missing) if missing else used_by_consumer,
            used=count.used + claims.used,
            deleted=count.deleted | claims.deleted,
            claims_revision=claims.revision,
            unconfirmed=claims.unconfirmed,
            served=claims.served,
            unpublished=claims.allocated.unpublished,
            uncounted=claims.allocated.uncounted,
            mappings=cap.mappings,
            holders={name: uid for name, uid in count.holders.items() if name[0] not in missing}
            if missing
            else count.holders,
            used_by_namespace={
                name: used + claims.used_by_namespace.get(name, NO_AMOUNTS)
                for name, used in count.used_by_namespace.items()
            },
        )

    def list_ended_mappings(self, cap: ActiveCap, key: LedgerKey, ledger: Ledger) -> ClassMappings:
        """Return the former mappings of device classes in a ledger by which none of its consumers still counts.

        There are none unless the pods and claims are those that the ledger was counted from.
        """
        membership, whole = self.find_membership(cap, key), cap.with_former(ledger.mappings)
        former = cap.classes.select_former(ledger.mappings)
        if membership is None or not former:
            return NO_MAPPINGS
        used = self._sum_counted(whole, membership.names, ledger)
        reserved = {name for reservation in ledger.reservations.values() for name in reservation.requested}
        ended = set[tuple[str, str]]()
        for mapping in sorted(former) if used is not None else ():
            left = cap.with_former(ledger.mappings - {mapping} - ended)
            concerned = {name for name in whole.resources if whole.list_sources((name,)) != left.list_sources((name,))}
            if concerned.isdisjoint(reserved) and self._sum_counted(left, membership.names, ledger) == used:
                ended.add(mapping)
        return frozenset(ended)

    def _sum_counted(self, cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger) -> Amounts | None:
        """Return the amounts of all pods and claims, none of which belongs to another; None as of other revisions."""
        try:
            pods = self._pods.compute_usage(cap, namespaces)
            claims = self._claims.compute_usage(cap, namespaces)
        except NotSyncedError:
            return None
        if pods.revision != ledger.pods_revision:
            return None
        is_same = claims.choose_revision(ledger.claims_revision) == ledger.claims_revision
        return pods.used + claims.used if is_same else None

    def list_unseen_classes(self, cap: ActiveCap, key: LedgerKey) -> list[UnseenClass]:
        """Return the unseen classes that decide what stored pods and claims count under a cap, in order."""
        membership = self.find_membership(cap, key)
        if membership is None or not cap.classes.may_be_unseen:
            return []
        found = {
            cap.find_unseen_class_of_claim(group.to_claim())
            for group in self._claims.list_charge_groups(membership.names)
            if isinstance(group, ClaimGroup)
        }
        for group in self._pods.list_charge_groups(membership.names):
            with suppress(QuantityError):  # it counts nothing, and is reported elsewhere
                found.add(cap.examine_classes(group.to_pod()).unseen)
        return sorted((unseen for unseen in found if unseen is not None), key=str)

    def find_device(self, device_id: DeviceId) -> KnownDevice | None:
        """Return a device of a slice that this replica has seen, or None."""
        return self._devices.find_device(device_id)

    def _count_claims(
        self, cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, separate: Collection[str] = ()
    ) -> ClaimsUsage | None:
        """Return the usage of claims; None if that of their devices is not known.

        Call it after the pods were counted: a pod that ends in between is then counted besides its claim, not neither.
        A cap without devices counts no claims, and keeps the revision of its ledger.
        """
        if not needs_claims(cap, ledger):
            return ClaimsUsage(ledger.claims_revision)
        usage = count_claims(cap, namespaces, ledger, self._sources, separate)
        if usage is not None and usage.revision < ledger.claims_revision:
            self.request_progress()
        return usage

    def _is_inconsistent(self, cap: ActiveCap, key: LedgerKey) -> bool:
        """Return whether a namespace was just deleted and has pods.

        Then another namespace of its name exists, which the namespace store does not show yet.
        """
        earliest = self._monotonic() - _NEW_NAMESPACE_SECONDS
        deleted = [
            name for name, at in self._deleted_at.copy().items() if at > earliest and key.namespace in {"", name}
        ]
        return bool(deleted and self._sum_used(cap, deleted))

    def _sum_used(self, cap: ActiveCap, namespaces: Collection[str]) -> Amounts:
        """Return the amounts of all pods and claims of the namespaces under a cap."""
        used = self._pods.compute_usage(cap, namespaces).used
        claims = self._count_claims(cap, frozenset(namespaces), _NO_LEDGER)
        return used if claims is None else used + claims.used

    def is_newer_than(self, cap: ActiveCap, ledger: Ledger) -> bool:
        """Return whether pods or claims have changed since the ledger was counted; fast enough for every charge."""
        return (self._pods.revision or 0) > ledger.pods_revision or self._has_newer_claims(cap, ledger)

    def may_lack_consumers(self, cap: ActiveCap, ledger: Ledger, last_change: int) -> bool:
        """Return whether the ledger was counted before `last_change` from pods or claims older than those seen here."""
        if ledger.pods_revision < min(last_change, self._pods.revision or 0):
            return True
        return ledger.claims_revision < last_change and self._has_newer_claims(cap, ledger)

    def _has_newer_claims(self, cap: ActiveCap, ledger: Ledger) -> bool:
        return cap.counts_claims and self._get_claims_revision() > ledger.claims_revision

    def request_progress(self) -> None:
        """Request a fresh revision from the watches, at most once in 5 s."""
        now = self._monotonic()
        if now >= self._progress_requested_at + _PROGRESS_INTERVAL_SECONDS:
            self._progress_requested_at = now
            self._request_progress()

    def request_progress_if_silent(self) -> None:
        """Request a fresh revision if no watch has reported for 20 s.

        Call it after a rejection: deletions that are not seen yet may have freed the requested amounts. A watch with a
        broken connection is as silent as one without changes (docs/design/watches.md).
        """
        synced_at = self.synced_at()
        if synced_at is None or self._monotonic() - synced_at > _SILENT_SECONDS:
            self.request_progress()

    def sum_usage(self, cap: ActiveCap, namespace: str) -> Amounts:
        """Return the amounts that one namespace would use under a cap, member namespace or not."""
        try:
            return self._sum_used(cap, (namespace,))
        except NotSyncedError:
            return Amounts()

    def list_pods_of_group(self, namespace: str, group_name: str) -> list[tuple[Pod, int]]:
        """Return the pods of a PodGroup that are stored, and neither have ended nor are being deleted.

        Equal pods are one item, with the fields that they have in common and their number.
        """
        return self._pods.list_pods_of_group(namespace, group_name)

    def list_groups_in(self, cap: ActiveCap, namespace: str) -> Iterator[GroupUsage]:
        """Return an iterator over the pods of one namespace that a cap counts, grouped by equal properties.

        Raises:
            NotSyncedError: if the pods are not listed yet.
        """
        return self._pods.list_groups(cap, (namespace,))

    def list_consumers(self, cap: ActiveCap, key: LedgerKey, ledger: Ledger = _NO_LEDGER) -> Iterator[ConsumerAmounts]:
        """Return an iterator over the consumers under a ledger.

        Raises:
            NotSyncedError: if pods or claims are not listed yet.
        """
        membership = self.find_membership(cap, key)
        return list_consumers(cap, membership.names if membership else (), self._sources, ledger)

    def has_running_pod(self, namespace: str, name: str) -> bool:
        """Return whether a pod of this name is stored that has not ended."""
        return self._pods.has_running(namespace, name)

    def list_pod_names(self, group: GroupUsage, max_names: int) -> list[str]:
        """Return the names of at most `max_names` pods of a group."""
        return self._pods.list_pod_names(group, max_names)

    def is_new_ledger(self, cap: ActiveCap, key: LedgerKey) -> bool:
        """Return whether a missing ledger never existed.

        Each of its member namespaces was created, or got the labels that bring it under the cap, less than 60 s ago,
        and was no member in the minute before; and this replica has not seen the ledger. So no pod was charged to it
        that is a member's, and stored pods are counted before it reserves.
        """
        if key in self._existing_ledgers:
            return False
        membership = self.find_membership(cap, key)
        if membership is None or not membership.names:
            return False
        earliest = self._monotonic() - _NEW_NAMESPACE_SECONDS
        return all(self._is_new_member(cap, name, earliest) for name in membership.names)

    def _is_new_member(self, cap: ActiveCap, name: str, earliest: float) -> bool:
        if self._created_at.get(name, -math.inf) > earliest:
            return True
        former = [labels for until, labels in self._former_labels.get(name, ()) if until > earliest]
        return bool(former) and not any(cap.matches_namespace(name, labels) for labels in former)

    def record_existing(self, key: LedgerKey, *, is_active: bool) -> None:
        """Record that a ledger exists, and whether it is active: if it is missing later, it was lost."""
        if self._existing_ledgers.get(key) is not is_active:
            self._existing_ledgers[key] = is_active or self._existing_ledgers.get(key, False)

    def was_active(self, key: LedgerKey) -> bool:
        """Return whether this replica has seen the ledger active: a new cap may enforce limits before its record."""
        return self._existing_ledgers.get(key, False)

    def _update_namespaces(self, names: Collection[str]) -> None:
        """Record new, relabelled and deleted namespaces; those of the first list may be of any age."""
        now = self._monotonic()
        is_first, uids = self._namespace_uids is None, self._namespace_uids or {}
        earliest = now - _NEW_NAMESPACE_SECONDS
        self._created_at = {name: at for name, at in self._created_at.items() if at > earliest}
        self._deleted_at = {name: at for name, at in self._deleted_at.items() if at > earliest}
        replaced: set[str] = set()
        former = {
            name: [label for label in labels if label[0] > earliest] for name, labels in self._former_labels.items()
        }
        for name in names:
            namespace = self._namespaces.find(name)
            if namespace is None or uids.get(name) != namespace.uid:  # its ledgers are those of the former one
                replaced.add(name)
            if namespace is None:
                uids.pop(name, None)
                self._created_at.pop(name, None)
                former.pop(name, None)
                self._deleted_at[name] = now
            elif uids.get(name) != namespace.uid:
                uids[name] = namespace.uid
                self._deleted_at.pop(name, None)
                if not is_first:
                    self._created_at[name] = now
            elif self._labels[name] != namespace.labels:
                former.setdefault(name, []).append((now, self._labels[name]))
            if namespace is not None:
                self._labels[name] = namespace.labels
            else:
                self._labels.pop(name, None)
        self._former_labels = {name: labels for name, labels in former.items() if labels}
        if replaced and not is_first:
            existing = self._existing_ledgers.copy()
            self._existing_ledgers = {key: ledger for key, ledger in existing.items() if key.namespace not in replaced}
        self._namespace_uids = uids


def _exclude_namespaces(
    used_by_consumer: Mapping[str, Amounts], ledger: Ledger, namespaces: Collection[str]
) -> Mapping[str, Amounts]:
    """Return the used amounts by consumer without those in the given namespaces, which are not counted."""
    excluded = {
        listed_uid
        for uid, reservation in ledger.reservations.items()
        for listed_uid in (uid, reservation.pod_uid)
        if reservation.namespace in namespaces
    }
    return {uid: used for uid, used in used_by_consumer.items() if uid not in excluded}
