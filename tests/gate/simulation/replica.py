"""A replica: the product's views, sight, batches and keeper, put together as `webhook.server.serve` does."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.gate.simulation.store import Store
from tests.gate.simulation.tasks import Tasks
from tests.gate.simulation.truth import Namespace, Truth
from tests.state.informers.pods import line, page
from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import ActiveCap, CapIndex
from webhook.gate.charging import CapCharge, ChargedPod, charge_pod
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.gate.usage_lister import UsageLister, get_ledger_key
from webhook.kube.freshness import Freshness
from webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from webhook.state.informers.pod_store import PodStore
from webhook.state.ports import LedgerKey, RetryLaterError

BOUND = 8.0
"""B in seconds of this world."""
_PATIENCE = 4.0
_DAY = 86_400.0


class Seen(NamedTuple):
    """The revisions up to which the views of a replica show pods and namespaces."""

    pods: int
    namespaces: int


class Replica:
    """One process. A crash makes another in its place: nothing is remembered, and everything is listed anew."""

    def __init__(self, number: int, truth: Truth, tasks: Tasks, store: Store, caps: CapIndex) -> None:
        self.number = number
        self.frozen = False
        self.leading = number == 0
        self.caps = caps
        self._truth = truth
        self._tasks = tasks
        self._born = number * 7 * _DAY - truth.now
        self._fresh, self._fresh_namespaces = Freshness(), Freshness()
        self._position = self._namespace_position = 0
        self.pods, self.namespaces = PodStore(), NamespaceStore()
        self.sight = UsageLister(self.pods, self.namespaces, self.clock, self._current_at)
        self._ledgers = BatchedLedgers(store, self.clock)
        self.keeper = LedgerReconciler(
            caps=lambda: self.caps,
            usage_lister=self.sight,
            ledgers=self._ledgers,
            reader=store,
            monotonic=self.clock,
            nonce=self.nonce,
            in_flight_bound=BOUND,
            leadership=self,
        )
        self.loaded: dict[str, int] = {}
        self.load(caps)
        self._list_namespaces()
        self.relist()

    def clock(self) -> float:
        """Its own monotonic clock, which began at another time than others'."""
        return self._truth.clock() + self._born

    def nonce(self) -> str:
        """What no other attempt has."""
        self._truth.nonces += 1
        return f"r{self.number}-{self._truth.nonces}"

    def is_leader(self) -> bool:
        """Whether it takes itself for the leader; two may, or none."""
        return self.leading

    def count_lost_replicas(self) -> int:
        """Who goes comes back here, and keeps what it promised in mind no longer than another would."""
        return 0

    def get_loaded_everywhere_since(self, _: str) -> float:
        """Caps come into force at different times here, and ledgers open all the same."""
        return -math.inf

    def load(self, caps: CapIndex) -> None:
        """Other policies."""
        self.caps = caps
        self.loaded = {each.key: self.loaded.get(each.key, self._truth.revision) for each in caps.list_caps()}
        self.sight.set_active_caps([counted.key for counted in caps.list_caps()])

    def knows(self, namespace: str) -> bool:
        """Whether a pod of this namespace is not sent away at once."""
        return self.namespaces.find(namespace) is not None

    def charge(self, who: ChargedPod, old: int, new: int) -> tuple[bool, Sequence[LedgerKey]]:
        """One attempt of the product's own; whether it was granted, and by which ledgers.

        Raises:
            BusyError: nothing is decided, or the namespace is not known any more.
            StoreUnavailableError: the ledgers are out of reach.
        """
        labels = self.namespaces.labels(who.namespace)
        if labels is None:
            raise RetryLaterError(f"namespace {who.namespace} is not known here")
        asked = [
            CapCharge(counted, current=_gpus(counted, old), requested=_gpus(counted, new), may_exceed=False)
            for counted in self.caps.find_matching(who.namespace, labels).caps
        ]
        outcome = charge_pod(self._ledgers, who, asked, self.clock() + _PATIENCE, self.sight)
        if outcome.obstacles and not outcome.exceeded:
            raise RetryLaterError(f"{outcome.obstacles}")
        return not outcome.exceeded, [get_ledger_key(each.cap, who.namespace) for each in asked]

    def keys(self) -> list[tuple[LedgerKey, ActiveCap]]:
        """Return the ledgers that it keeps, last those without member namespaces: a visit may take these out."""
        by_cap = {counted.key: counted for counted in self.caps.list_caps()}
        open_ = {key: by_cap[key.cap] for key in self.keeper.list_pending() if key.cap in by_cap}
        names = {told.name for told in self._truth.told_namespaces}
        keys = open_ | dict(self.keeper.list_ledgers(sorted(names)))
        return sorted(keys.items(), key=lambda each: (self._is_idle(*each), each[0].namespace, each[0].cap))

    def _is_idle(self, key: LedgerKey, counted: ActiveCap) -> bool:
        members = self.sight.find_membership(counted, key)
        return members is not None and not members.names

    # What it sees

    def seen(self) -> Seen:
        """Return how far its views go."""
        return Seen(self.pods.revision or 0, self.namespaces.revision or 0)

    def relist(self) -> None:
        """List pods by quorum, as after a 410."""
        begun = self.clock()
        self.pods.apply(page(self._truth.revision, *(pod.body() for pod in self._truth.pods.values())))
        self._position = len(self._truth.told)
        self._fresh.record_list(self._truth.revision, begun)

    def watch(self, events: int) -> bool:
        """See some more events of pods; whether there were any."""
        told = self._truth.told[self._position : self._position + events]
        for each in told:
            event = line(each.kind, each.pod.body())
            assert isinstance(event, Changed | Deleted)
            self.pods.apply(event)
            self._fresh.record_event(each.revision)
        self._position += len(told)
        return bool(told)

    def watch_namespaces(self) -> bool:
        """See the next namespace, or a bookmark."""
        if self._namespace_position == len(self._truth.told_namespaces):
            self.namespaces.apply(Bookmark(self._truth.revision))
            self._fresh_namespaces.record_cluster_revision(self._truth.revision, self.clock())
            self._fresh_namespaces.record_event(self._truth.revision)
            return False
        told = self._truth.told_namespaces[self._namespace_position]
        event = Deleted if told.gone else Changed
        self.namespaces.apply(event(_namespace(told), told.revision))
        self._fresh_namespaces.record_event(told.revision)
        self._namespace_position += 1
        return True

    def ask(self) -> None:
        """Ask which revision the cluster is at."""
        self._fresh.record_cluster_revision(self._truth.revision, self.clock())

    def bookmark(self) -> bool:
        """Be told how far the watch is, where it has told everything."""
        if self._position < len(self._truth.told):
            return False
        self.pods.apply(Bookmark(self._truth.revision))
        self._fresh.record_event(self._truth.revision)
        return True

    def catch_up(self) -> None:
        """See everything, and know that."""
        self.ask()
        self.watch(len(self._truth.told))
        self.bookmark()
        while self.watch_namespaces():
            pass
        self.watch_namespaces()

    def _list_namespaces(self) -> None:
        begun = self.clock()
        rows = [_namespace(each) for each in self._truth.namespaces.values()]
        self.namespaces.apply(Replaced(rows, self._truth.revision))
        self._namespace_position = len(self._truth.told_namespaces)
        self._fresh_namespaces.record_list(self._truth.revision, begun)

    def _current_at(self) -> float | None:
        self._tasks.pause("looks how old its view is")
        both = (self._fresh.confirmed_at, self._fresh_namespaces.confirmed_at)
        known = [at for at in both if at is not None]
        return min(known) if len(known) == len(both) else None


def _gpus(counted: ActiveCap, size: int) -> Amounts:
    return Amounts(dict.fromkeys(counted.resources, size)) if size else Amounts()


def _namespace(told: Namespace) -> NamespaceRecord:
    meta = {"name": told.name, "uid": told.uid, "resourceVersion": str(told.revision)}
    body = {"metadata": meta | {"labels": dict.fromkeys(told.caps, "yes")}}
    event = NAMESPACE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": body}).encode())
    assert isinstance(event, Changed)
    row: NamespaceRecord = event.item
    return row
