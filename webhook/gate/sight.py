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
from webhook.admission.capping import Counted
from webhook.policy.resolve import matches_namespace
from webhook.state.ledger import Ledger, View
from webhook.state.ports import LedgerKey
from webhook.state.watch.namespaces import Labels, NamespaceView
from webhook.state.watch.view import Heap, NotListedError, PodView

_NEW_SECONDS = 60.0
_HURRY_SECONDS = 5.0
_SILENT_SECONDS = 20.0  # where pods come and go, a view is known to be current every fifteen
_NOT_KNOWN_YET = 2**63
"""Above every revision, which etcd counts in an int64."""


class Membership(msgspec.Struct, frozen=True):
    """The namespaces that draw on one ledger: their names, and a hash of them.

    It was so at `revision`, and at every one before that down to `settled`. A ledger that was counted before `changed`
    may lack pods: a namespace that was away from the cap for a while took some in that were charged to nobody.
    """

    names: frozenset[str]
    hash: str
    revision: int
    settled: int
    changed: int

    def as_of(self, least: int) -> int:
        """The revision to say that it was so at: one that asks as little as can be of replicas that see less far.

        It is `least`, where that lies between both: what idle replicas know differs by bookmarks only.
        """
        return max(self.settled, self.changed, min(least, self.revision))


class Sight:
    """Views of the cluster, asked by cap and ledger. Any thread may ask.

    `monotonic` is in seconds; `current_at` says since when, by that clock, pods and namespaces are known to be as the
    views show them, None before they were listed; `hurry` asks for that to be found out soon.
    """

    def __init__(
        self,
        pods: PodView,
        namespaces: NamespaceView,
        monotonic: Callable[[], float],
        current_at: Callable[[], float | None],
        hurry: Callable[[], None] = lambda: None,
    ) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._monotonic = monotonic
        self.current_at = current_at
        self._hurry = hurry
        self._hurried_at = -math.inf
        self._loaded: dict[str, float] = {}
        self._left: dict[str, float] = {}  # as those loaded, but gone out of force the last time that others came
        self._since: dict[str, tuple[float, int]] = {}
        self._uids: dict[str, str] | None = None
        self._born: dict[str, float] = {}
        self._passed: dict[str, float] = {}  # namespaces that were seen to go, and have not been seen to come again
        self._met: set[LedgerKey] = set()
        namespaces.listen(self._seen)

    def in_force(self, caps: Collection[str]) -> None:
        """Be told by their keys which caps are in force from now on, before anybody is charged by them."""
        now, before = self._monotonic(), self._loaded
        self._left = {cap: at for cap, at in before.items() if cap not in caps}
        self._loaded = {cap: before.get(cap, now) for cap in caps}

    def counted_since(self, cap: str) -> int:
        """The revision of pods from which on a ledger must have been counted for this process to charge a cap by it.

        One at which all is stored that was before the cap came into force here: that was let in uncounted. A ledger may
        be older than the cap, when that was taken out of the policies and put back.
        """
        loaded = self._loaded.get(cap, self._left.get(cap))  # who is at it while it goes out of force charges by it
        if loaded is None:
            return _NOT_KNOWN_YET
        at, since = self._since.get(cap, (loaded, None))
        if since is not None and at == loaded:
            return min(since, self._pods.revision or 0)  # a cluster restored from a backup goes back
        current_at = self.current_at()
        revision = self._pods.revision
        if revision is None or current_at is None or current_at < loaded:
            self.hurry()
            return _NOT_KNOWN_YET
        self._since[cap] = loaded, revision
        return revision

    def members(self, counted: Counted, key: LedgerKey) -> Membership | None:
        """The namespaces that draw on a ledger; None before namespaces are known."""
        if not key.namespace:
            found = self._namespaces.members(counted.key, _selects(counted))
            if found is None:
                return None
            return Membership(found.names, _hash_of_many(found.names), found.revision, found.settled, found.settled)
        revision, settled = self._namespaces.revision, self._namespaces.settled
        if revision is None:
            return None
        row = self._namespaces.row(key.namespace)
        if row is None:
            return Membership(frozenset(), _HASH_OF_NONE, revision, settled, settled)
        is_in = matches_namespace(counted.cap.namespaces, key.namespace, row.labels)
        if not is_in:
            return Membership(frozenset(), _HASH_OF_NONE, revision, settled, row.revision)
        name = key.namespace
        return Membership(frozenset({name}), _hash_of_one(name), revision, settled, row.revision)

    def is_gone(self, key: LedgerKey) -> bool:
        """Whether this is the ledger of a namespace that is not there, as far as that can be seen."""
        known = self._namespaces.revision is not None
        return known and bool(key.namespace) and not self.knows(key.namespace)

    def knows(self, namespace: str) -> bool:
        """Whether there is such a namespace, as far as that can be seen.

        Where there is none, and pods are in it, namespaces are seen less far than pods: another of its name has come.
        """
        return self._namespaces.row(namespace) is not None

    def view(self, counted: Counted, key: LedgerKey, ledger: Ledger) -> View | None:
        """What the pods under a ledger hold, those of its rows one by one; None before the cluster was listed."""
        members = self.members(counted, key)
        if members is None:
            return None
        try:
            count = self._pods.count(counted, members.names, ledger.rows)
        except NotListedError:
            return None
        if self._is_torn(counted, key):
            return None
        missing = {row.namespace for row in ledger.rows.values() if not self.knows(row.namespace)}
        return View(
            revision=count.revision,
            ns_revision=members.as_of(ledger.ns_as_of),
            members=members.hash,
            names=counted.names,
            counted=_but_for(count.there, ledger, missing) if missing else count.there,
            total=count.tally,
            gone=count.deleted,
        )

    def _is_torn(self, counted: Counted, key: LedgerKey) -> bool:
        """Whether pods are seen in a namespace that has just gone: then another of its name has come, unseen so far."""
        until = self._monotonic() - _NEW_SECONDS
        passed = [name for name, at in self._passed.copy().items() if at > until and key.namespace in {"", name}]
        return bool(passed and self._pods.count(counted, passed).tally)

    def shows_more(self, ledger: Ledger) -> bool:
        """Whether more has happened to pods than the ledger was counted with; quick, for who asks at each of many."""
        return (self._pods.revision or 0) > ledger.as_of

    def hurry(self) -> None:
        """Have it found out soon how the cluster is; not more often than that takes."""
        now = self._monotonic()
        if now >= self._hurried_at + _HURRY_SECONDS:
            self._hurried_at = now
            self._hurry()

    def doubt(self) -> None:
        """Somebody was refused: if the view has been silent for long, see whether there is room that it does not show.

        A watch whose connection has died says nothing, as one does where nothing happens (docs/watching.md).
        """
        current_at = self.current_at()
        if current_at is None or self._monotonic() - current_at > _SILENT_SECONDS:
            self.hurry()

    def held(self, counted: Counted, namespace: str) -> Amounts:
        """What the pods of one namespace would hold under a cap, whether it is over them or not."""
        try:
            return self._pods.count(counted, (namespace,)).tally
        except NotListedError:
            return Amounts()

    def heaps(self, counted: Counted, key: LedgerKey) -> Iterator[Heap]:
        """The pods under a ledger, by what they have in common.

        Raises:
            NotListedError: nothing is known yet.
        """
        members = self.members(counted, key)
        return self._pods.heaps(counted, members.names if members else ())

    def named(self, heap: Heap, most: int) -> list[str]:
        """The names of so many of a heap's pods."""
        return self._pods.named(heap, most)

    def is_first(self, key: LedgerKey) -> bool:
        """Whether a ledger that is not there never was: its namespace came a moment ago, and it was not met before."""
        born = self._born.get(key.namespace)
        return born is not None and self._monotonic() - born < _NEW_SECONDS and key not in self._met

    def met(self, key: LedgerKey) -> None:
        """Be told that a ledger is there: if it is not any more, it was lost."""
        if key.namespace in self._born:
            self._met.add(key)

    def _seen(self, names: Collection[str]) -> None:
        """Those of the first list may be of any age; what comes later is new."""
        now = self._monotonic()
        first, known = self._uids is None, self._uids or {}
        self._born = {name: at for name, at in self._born.items() if now - at < _NEW_SECONDS}
        self._passed = {name: at for name, at in self._passed.items() if now - at < _NEW_SECONDS}
        self._met = {key for key in self._met.copy() if key.namespace in self._born}
        for name in names:
            row = self._namespaces.row(name)
            if row is None:
                known.pop(name, None)
                self._born.pop(name, None)
                self._passed[name] = now
            elif known.get(name) != row.uid:
                known[name] = row.uid
                self._passed.pop(name, None)
                if not first:
                    self._born[name] = now
        self._uids = known


def _but_for(there: Mapping[str, Amounts], ledger: Ledger, missing: Collection[str]) -> Mapping[str, Amounts]:
    """What is known of the pods of a ledger's rows, without those in namespaces that are not known, nor counted."""
    return {uid: held for uid, held in there.items() if ledger.rows[uid].namespace not in missing}


def _selects(counted: Counted) -> Callable[[str, Labels], bool]:
    return lambda name, labels: bool(matches_namespace(counted.cap.namespaces, name, labels))


def _hash(names: Collection[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


_HASH_OF_NONE = _hash(())


@lru_cache(maxsize=4096)
def _hash_of_one(name: str) -> str:
    return _hash((name,))


@lru_cache(maxsize=16)  # each may be of thousands; a shared cap asks for the same at every create
def _hash_of_many(names: frozenset[str]) -> str:
    return _hash(names)
