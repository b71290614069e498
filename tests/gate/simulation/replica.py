"""A replica: stores, lister, batches and reconciler of the product, put together as `webhook.server.serve` does."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.admission.cap_index import ActiveCap, CapIndex
from tallygate.webhook.gate.charging import CapCharge, ChargedConsumer, charge_consumer
from tallygate.webhook.gate.ledger_reconciler import LedgerReconciler
from tallygate.webhook.gate.usage_lister import UsageLister, get_ledger_key
from tallygate.webhook.kube.reflector import Freshness
from tallygate.webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.webhook.state.batched_ledgers import BatchedLedgers
from tallygate.webhook.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from tallygate.webhook.state.informers.pod_store import PodStore
from tallygate.webhook.state.ports import LedgerKey, RetryLaterError
from tests.gate.simulation.ground_truth import GroundTruth, Namespace
from tests.gate.simulation.store import Store
from tests.gate.simulation.tasks import Tasks
from tests.state.informers.pods import line, page

BOUND = 8.0
"""The in-flight bound in seconds."""
_CHARGE_SECONDS = 4.0
_DAY = 86_400.0


class SeenRevisions(NamedTuple):
    """The revisions up to which a replica has seen pods and namespaces."""

    pods: int
    namespaces: int


class Replica:
    """One process. A crash replaces it by a new one, which remembers nothing and lists everything again."""

    def __init__(self, number: int, truth: GroundTruth, tasks: Tasks, store: Store, caps: CapIndex) -> None:
        self.number = number
        self.is_frozen = False
        self.leads = number == 0
        self.caps = caps
        self._truth = truth
        self._tasks = tasks
        self._clock_offset = number * 7 * _DAY - truth.now
        self._pod_freshness, self._namespace_freshness = Freshness(), Freshness()
        self._pod_position = self._namespace_position = 0
        self.pods, self.namespaces = PodStore(), NamespaceStore()
        self._usage_lister = UsageLister(self.pods, self.namespaces, self.clock, self._find_confirmed_at)
        self._ledgers = BatchedLedgers(store, self.clock)
        self.reconciler = LedgerReconciler(
            caps=lambda: self.caps,
            usage_lister=self._usage_lister,
            ledgers=self._ledgers,
            reader=store,
            monotonic=self.clock,
            nonce=self.create_nonce,
            in_flight_bound=BOUND,
            leadership=self,
        )
        self.loaded: dict[str, int] = {}
        """For each active cap, the revision of the cluster at which this replica activated it."""
        self.load(caps)
        self._list_namespaces()
        self.relist()

    def clock(self) -> float:
        """Return the time of its own monotonic clock, which began at another time than those of other replicas."""
        return self._truth.clock() + self._clock_offset

    def create_nonce(self) -> str:
        """Return a nonce that no other attempt has."""
        self._truth.nonces += 1
        return f"r{self.number}-{self._truth.nonces}"

    def is_leader(self) -> bool:
        """Return whether it believes that it leads; two replicas may, or none."""
        return self.leads

    def count_lost_replicas(self) -> int:
        """Return 0: every crashed replica is replaced at once."""
        return 0

    def get_loaded_everywhere_since(self, _: str) -> float:
        """Return a time before every list: no new ledger waits for other replicas to load its cap."""
        return -math.inf

    def load(self, caps: CapIndex) -> None:
        """Load a policy; a new cap is active since the current revision of the cluster."""
        self.caps = caps
        self.loaded = {each.key: self.loaded.get(each.key, self._truth.revision) for each in caps.list_caps()}
        self._usage_lister.set_active_caps([cap.key for cap in caps.list_caps()])

    def knows_namespace(self, namespace: str) -> bool:
        """Return whether it has seen a namespace; it rejects pods of others at once."""
        return self.namespaces.find(namespace) is not None

    def charge(self, pod: ChargedConsumer, old_size: int, size: int) -> tuple[bool, Sequence[LedgerKey]]:
        """Charge a pod with the product's own code; return whether no cap is exceeded, and the ledgers.

        Raises:
            RetryLaterError: if there is no decision, or the namespace was deleted.
            StoreUnavailableError: if a ledger cannot be read or written.
        """
        labels = self.namespaces.labels(pod.namespace)
        if labels is None:
            raise RetryLaterError(f"namespace {pod.namespace} is not known here")
        charges = [
            CapCharge(cap, current=_to_amounts(cap, old_size), requested=_to_amounts(cap, size), may_exceed=False)
            for cap in self.caps.find_matching(pod.namespace, labels).caps
        ]
        result = charge_consumer(self._ledgers, pod, charges, self.clock() + _CHARGE_SECONDS, self._usage_lister)
        if result.obstacles and not result.exceeded:
            raise RetryLaterError(f"{result.obstacles}")
        return not result.exceeded, [get_ledger_key(each.cap, pod.namespace) for each in charges]

    def list_ledgers(self) -> list[tuple[LedgerKey, ActiveCap]]:
        """Return the ledgers that it reconciles, last those without member namespaces, which it may delete."""
        by_cap = {cap.key: cap for cap in self.caps.list_caps()}
        pending = {key: by_cap[key.cap] for key in self.reconciler.list_pending() if key.cap in by_cap}
        names = {event.name for event in self._truth.namespace_events}
        ledgers = pending | dict(self.reconciler.list_ledgers(sorted(names)))
        return sorted(ledgers.items(), key=lambda each: (self._has_no_members(*each), each[0].namespace, each[0].cap))

    def _has_no_members(self, key: LedgerKey, cap: ActiveCap) -> bool:
        membership = self._usage_lister.find_membership(cap, key)
        return membership is not None and not membership.names

    # Watches

    def list_seen_revisions(self) -> SeenRevisions:
        """Return the revisions up to which it has seen pods and namespaces."""
        return SeenRevisions(self.pods.revision or 0, self.namespaces.revision or 0)

    def relist(self) -> None:
        """List pods by a quorum read, as after a 410."""
        started_at = self.clock()
        self.pods.apply(page(self._truth.revision, *(pod.to_object() for pod in self._truth.pods.values())))
        self._pod_position = len(self._truth.pod_events)
        self._pod_freshness.record_list(self._truth.revision, started_at)

    def watch(self, events: int) -> bool:
        """Receive the next events of pods; return whether there were any."""
        received = self._truth.pod_events[self._pod_position : self._pod_position + events]
        for each in received:
            event = line(each.kind, each.pod.to_object())
            assert isinstance(event, Changed | Deleted)
            self.pods.apply(event)
            self._pod_freshness.record_event(each.revision)
        self._pod_position += len(received)
        return bool(received)

    def watch_namespaces(self) -> bool:
        """Receive the next event of a namespace, or a bookmark; return whether there was an event."""
        if self._namespace_position == len(self._truth.namespace_events):
            self.namespaces.apply(Bookmark(self._truth.revision))
            self._namespace_freshness.record_cluster_revision(self._truth.revision, self.clock())
            self._namespace_freshness.record_event(self._truth.revision)
            return False
        received = self._truth.namespace_events[self._namespace_position]
        event = Deleted if received.is_deleted else Changed
        self.namespaces.apply(event(_to_record(received), received.revision))
        self._namespace_freshness.record_event(received.revision)
        self._namespace_position += 1
        return True

    def request_progress(self) -> None:
        """Request the current revision of the cluster."""
        self._pod_freshness.record_cluster_revision(self._truth.revision, self.clock())

    def receive_bookmark(self) -> bool:
        """Receive a bookmark of pods if there are no more events; return whether it did."""
        if self._pod_position < len(self._truth.pod_events):
            return False
        self.pods.apply(Bookmark(self._truth.revision))
        self._pod_freshness.record_event(self._truth.revision)
        return True

    def catch_up(self) -> None:
        """Receive every event, and the proof that there are no more."""
        self.request_progress()
        self.watch(len(self._truth.pod_events))
        self.receive_bookmark()
        while self.watch_namespaces():
            pass
        self.watch_namespaces()

    def _list_namespaces(self) -> None:
        started_at = self.clock()
        records = [_to_record(each) for each in self._truth.namespaces.values()]
        self.namespaces.apply(Replaced(records, self._truth.revision))
        self._namespace_position = len(self._truth.namespace_events)
        self._namespace_freshness.record_list(self._truth.revision, started_at)

    def _find_confirmed_at(self) -> float | None:
        self._tasks.pause("computes the age of its stores")
        pods_at, namespaces_at = self._pod_freshness.confirmed_at, self._namespace_freshness.confirmed_at
        return None if pods_at is None or namespaces_at is None else min(pods_at, namespaces_at)


def _to_amounts(cap: ActiveCap, size: int) -> Amounts:
    return Amounts(dict.fromkeys(cap.resources, size)) if size else Amounts()


def _to_record(namespace: Namespace) -> NamespaceRecord:
    meta = {"name": namespace.name, "uid": namespace.uid, "resourceVersion": str(namespace.revision)}
    body = {"metadata": meta | {"labels": dict.fromkeys(namespace.caps, "yes")}}
    event = NAMESPACE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": body}).encode())
    assert isinstance(event, Changed)
    record: NamespaceRecord = event.item
    return record
