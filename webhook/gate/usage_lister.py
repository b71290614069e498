"""What the gate sees of the cluster: which namespaces a cap holds, and what their pods hold under it.

From the views that watches keep. What they show is never taken for the present: a ledger says from which revision it
was counted, and takes no older view (docs/caps.md, rule 4).
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import ActiveCap
from webhook.policy.matching import matches_namespace
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recount import UsageSnapshot
from webhook.state.ports import LedgerKey
from webhook.state.watch.namespaces import Labels, NamespaceView
from webhook.state.watch.view import Heap, NotListedError, PodView

_NEW_NAMESPACE_SECONDS = 60.0
_PROGRESS_INTERVAL_SECONDS = 5.0
_SILENT_SECONDS = 20.0  # where pods come and go, a view is known to be current every fifteen
_UNKNOWN_REVISION = 2**63
"""Above every revision, which etcd counts in an int64."""


class Membership(msgspec.Struct, frozen=True):
    """The namespaces that draw on one ledger: their names, and a hash of them.

    It was so at `revision`, and at every one before that down to `settled`. A ledger that was counted before `changed`
    may lack pods: a namespace that was away from the cap for a while took some in that were charged to nobody.
    """

    names: frozenset[str]
    hash: str
    revision: int
    unchanged_since: int
    last_change: int

    def choose_revision(self, preferred: int) -> int:
        """The revision to say that it was so at: one that asks as little as can be of replicas that see less far.

        It is `least`, where that lies between both: what idle replicas know differs by bookmarks only.
        """
        return max(self.unchanged_since, self.last_change, min(preferred, self.revision))


class UsageLister:
    """Views of the cluster, asked by cap and ledger. Any thread may ask.

    `monotonic` is in seconds; `current_at` says since when, by that clock, pods and namespaces are known to be as the
    views show them, None before they were listed; `hurry` asks for that to be found out soon.
    """

    def __init__(
        self,
        pods: PodView,
        namespaces: NamespaceView,
        monotonic: Callable[[], float],
        synced_at: Callable[[], float | None],
        request_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._monotonic = monotonic
        self.synced_at = synced_at
        self._request_progress = request_progress
        self._progress_requested_at = -math.inf
        self._active_since: dict[str, float] = {}
        self._removed_since: dict[
            str, float
        ] = {}  # as those loaded, but gone out of force the last time that others came
        self._required_revisions: dict[str, tuple[float, int]] = {}
        self._namespace_uids: dict[str, str] | None = None
        self._created_at: dict[str, float] = {}
        self._deleted_at: dict[str, float] = {}  # namespaces that were seen to go, and have not been seen to come again
        self._existing_ledgers: set[LedgerKey] = set()
        namespaces.listen(self._update_namespaces)

    def set_active_caps(self, caps: Collection[str]) -> None:
        """Be told by their keys which caps are in force from now on, before anybody is charged by them."""
        now, before = self._monotonic(), self._active_since
        self._removed_since = {cap: at for cap, at in before.items() if cap not in caps}
        self._active_since = {cap: before.get(cap, now) for cap in caps}

    def get_required_revision(self, cap: str) -> int:
        """The revision of pods from which on a ledger must have been counted for this process to charge a cap by it.

        One at which all is stored that was before the cap came into force here: that was let in uncounted. A ledger may
        be older than the cap, when that was taken out of the policies and put back.
        """
        active_since = self._active_since.get(
            cap, self._removed_since.get(cap)
        )  # who is at it while it goes out of force charges by it
        if active_since is None:
            return _UNKNOWN_REVISION
        known_active_since, required = self._required_revisions.get(cap, (active_since, None))
        if required is not None and known_active_since == active_since:
            return min(required, self._pods.revision or 0)  # a cluster restored from a backup goes back
        synced_at = self.synced_at()
        revision = self._pods.revision
        if revision is None or synced_at is None or synced_at < active_since:
            self.request_progress()
            return _UNKNOWN_REVISION
        self._required_revisions[cap] = active_since, revision
        return revision

    def find_membership(self, cap: ActiveCap, key: LedgerKey) -> Membership | None:
        """The namespaces that draw on a ledger; None before namespaces are known."""
        if not key.namespace:
            members = self._namespaces.members(cap.key, _create_selector(cap))
            if members is None:
                return None
            return Membership(
                members.names, _hash_name_set(members.names), members.revision, members.settled, members.settled
            )
        revision, unchanged_since = self._namespaces.revision, self._namespaces.settled
        if revision is None:
            return None
        namespace = self._namespaces.row(key.namespace)
        if namespace is None:
            return Membership(frozenset(), _EMPTY_HASH, revision, unchanged_since, unchanged_since)
        is_member = matches_namespace(cap.definition.namespaces, key.namespace, namespace.labels)
        if not is_member:
            return Membership(frozenset(), _EMPTY_HASH, revision, unchanged_since, namespace.revision)
        name = key.namespace
        return Membership(frozenset({name}), _hash_single_name(name), revision, unchanged_since, namespace.revision)

    def is_namespace_deleted(self, key: LedgerKey) -> bool:
        """Whether this is the ledger of a namespace that is not there, as far as that can be seen."""
        is_synced = self._namespaces.revision is not None
        return is_synced and bool(key.namespace) and not self.has_namespace(key.namespace)

    def has_namespace(self, namespace: str) -> bool:
        """Whether there is such a namespace, as far as that can be seen.

        Where there is none, and pods are in it, namespaces are seen less far than pods: another of its name has come.
        """
        return self._namespaces.row(namespace) is not None

    def take_snapshot(self, cap: ActiveCap, key: LedgerKey, ledger: Ledger) -> UsageSnapshot | None:
        """What the pods under a ledger hold, those of its rows one by one; None before the cluster was listed."""
        membership = self.find_membership(cap, key)
        if membership is None:
            return None
        try:
            count = self._pods.count(cap, membership.names, ledger.reservations)
        except NotListedError:
            return None
        if self._is_inconsistent(cap, key):
            return None
        missing = {
            reservation.namespace
            for reservation in ledger.reservations.values()
            if not self.has_namespace(reservation.namespace)
        }
        return UsageSnapshot(
            pods_revision=count.revision,
            namespaces_revision=membership.choose_revision(ledger.namespaces_revision),
            namespaces_hash=membership.hash,
            resources=cap.resources,
            used_by_pod=_exclude_namespaces(count.there, ledger, missing) if missing else count.there,
            used=count.tally,
            deleted=count.deleted,
        )

    def _is_inconsistent(self, cap: ActiveCap, key: LedgerKey) -> bool:
        """Whether pods are seen in a namespace that has just gone: then another of its name has come, unseen so far."""
        earliest = self._monotonic() - _NEW_NAMESPACE_SECONDS
        deleted = [
            name for name, at in self._deleted_at.copy().items() if at > earliest and key.namespace in {"", name}
        ]
        return bool(deleted and self._pods.count(cap, deleted).tally)

    def is_newer_than(self, ledger: Ledger) -> bool:
        """Whether more has happened to pods than the ledger was counted with; quick, for who asks at each of many."""
        return (self._pods.revision or 0) > ledger.pods_revision

    def request_progress(self) -> None:
        """Have it found out soon how the cluster is; not more often than that takes."""
        now = self._monotonic()
        if now >= self._progress_requested_at + _PROGRESS_INTERVAL_SECONDS:
            self._progress_requested_at = now
            self._request_progress()

    def request_progress_if_silent(self) -> None:
        """Somebody was refused: if the view has been silent for long, see whether there is room that it does not show.

        A watch whose connection has died says nothing, as one does where nothing happens (docs/watching.md).
        """
        synced_at = self.synced_at()
        if synced_at is None or self._monotonic() - synced_at > _SILENT_SECONDS:
            self.request_progress()

    def sum_usage(self, cap: ActiveCap, namespace: str) -> Amounts:
        """What the pods of one namespace would hold under a cap, whether it is over them or not."""
        try:
            return self._pods.count(cap, (namespace,)).tally
        except NotListedError:
            return Amounts()

    def list_groups(self, cap: ActiveCap, key: LedgerKey) -> Iterator[Heap]:
        """The pods under a ledger, by what they have in common.

        Raises:
            NotListedError: nothing is known yet.
        """
        membership = self.find_membership(cap, key)
        return self._pods.heaps(cap, membership.names if membership else ())

    def list_pod_names(self, group: Heap, max_names: int) -> list[str]:
        """The names of so many of a heap's pods."""
        return self._pods.named(group, max_names)

    def is_new_ledger(self, key: LedgerKey) -> bool:
        """Whether a ledger that is not there never was: its namespace came a moment ago, and it was not met before."""
        created_at = self._created_at.get(key.namespace)
        return (
            created_at is not None
            and self._monotonic() - created_at < _NEW_NAMESPACE_SECONDS
            and key not in self._existing_ledgers
        )

    def record_existing(self, key: LedgerKey) -> None:
        """Be told that a ledger is there: if it is not any more, it was lost."""
        if key.namespace in self._created_at:
            self._existing_ledgers.add(key)

    def _update_namespaces(self, names: Collection[str]) -> None:
        """Those of the first list may be of any age; what comes later is new."""
        now = self._monotonic()
        is_first, uids = self._namespace_uids is None, self._namespace_uids or {}
        self._created_at = {name: at for name, at in self._created_at.items() if now - at < _NEW_NAMESPACE_SECONDS}
        self._deleted_at = {name: at for name, at in self._deleted_at.items() if now - at < _NEW_NAMESPACE_SECONDS}
        self._existing_ledgers = {key for key in self._existing_ledgers.copy() if key.namespace in self._created_at}
        for name in names:
            namespace = self._namespaces.row(name)
            if namespace is None:
                uids.pop(name, None)
                self._created_at.pop(name, None)
                self._deleted_at[name] = now
            elif uids.get(name) != namespace.uid:
                uids[name] = namespace.uid
                self._deleted_at.pop(name, None)
                if not is_first:
                    self._created_at[name] = now
        self._namespace_uids = uids


def _exclude_namespaces(
    used_by_pod: Mapping[str, Amounts], ledger: Ledger, namespaces: Collection[str]
) -> Mapping[str, Amounts]:
    """What is known of the pods of a ledger's rows, without those in namespaces that are not known, nor counted."""
    return {uid: used for uid, used in used_by_pod.items() if ledger.reservations[uid].namespace not in namespaces}


def _create_selector(cap: ActiveCap) -> Callable[[str, Labels], bool]:
    return lambda name, labels: bool(matches_namespace(cap.definition.namespaces, name, labels))


def _hash_names(names: Collection[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


_EMPTY_HASH = _hash_names(())


@lru_cache(maxsize=4096)
def _hash_single_name(name: str) -> str:
    return _hash_names((name,))


@lru_cache(maxsize=16)  # each may be of thousands; a shared cap asks for the same at every create
def _hash_name_set(names: frozenset[str]) -> str:
    return _hash_names(names)
