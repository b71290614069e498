"""One replica of the gate with its reconciler, in a cluster whose watch events a test delivers one by one."""

import json
import math
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import CapIndex
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.gate import Gate
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.gate.top_consumers import TopConsumers
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, WatchEvent
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.review.view import ClusterView
from tallygate.review.whole_workloads import read_workload_state
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, StoreUnavailableError, T, Transition
from tests.gate.gate_fixture import CAP, GPU, GateFixture
from tests.state.informers.pods import line, page
from tests.state.informers.pods import pod as stored_pod
from tests.state.transitions import Read

BOUND = 40.0


class _LiveReader:
    """A reader of the pods that are stored."""

    def __init__(self, stored_pods: dict[str, dict[str, Any]]) -> None:
        self._stored_pods = stored_pods

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:  # noqa: ARG002  # pods only
        """Return the revision of a stored pod, or None if it is missing."""
        found = self._stored_pods.get(uid)
        if found is None:
            return None
        assert (found["metadata"]["namespace"], found["metadata"]["name"]) == (namespace, name)
        return int(found["metadata"]["resourceVersion"])


class StoredObjects:
    """A reader of the workloads that a test stores, by plural, namespace and name; it counts its reads."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.unreadable: set[str] = set()
        self.reads = 0

    def store(self, plural: str, object_: dict[str, Any], namespace: str = "team-a") -> None:
        """Store an object in place of an earlier one."""
        self.objects[plural, namespace, object_["metadata"]["name"]] = object_

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the JSON of an object, or None if it is missing."""
        self.reads += 1
        plural = resource[2]
        if plural in self.unreadable:
            raise StoreUnavailableError(f"{plural} may not be read")
        found = self.objects.get((plural, namespace, name))
        return None if found is None else json.dumps(found).encode()


class _DeletableLedgers(MemoryLedgers):
    """Ledgers that a user can delete; the replica cannot while `is_deletion_forbidden`.

    `after_transaction` is called at the end of each transaction.
    """

    is_deletion_forbidden = False
    after_transaction: Callable[[], None] | None = None

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Run the transaction in memory."""
        if self.is_deletion_forbidden and attempt(self._ledgers.get(key)).is_removal:
            raise StoreUnavailableError("the gate must be allowed to delete capledgers")
        outcome = super().transact(key, attempt, deadline)
        if self.after_transaction is not None:
            self.after_transaction()
        return outcome

    def delete_ledger(self, key: LedgerKey) -> None:
        """Delete a ledger as a user would."""
        del self._ledgers[key]


class FixedLeadership:
    """The role of a replica, which a test sets."""

    def __init__(self) -> None:
        self.leading = True
        self.loaded_since: float | None = -math.inf
        self.lost_replicas = 0
        self.recorded = True

    def is_leader(self) -> bool:
        """Return the value that the test set."""
        return self.leading

    def get_loaded_everywhere_since(self, _: str) -> float | None:
        """Return the time that the test set."""
        return self.loaded_since

    def is_recorded(self, _: str) -> bool:
        """Return the value that the test set."""
        return self.recorded

    def count_lost_replicas(self) -> int:
        """Return the number that the test set."""
        return self.lost_replicas


class RecordFixture:
    """The record of the caps that were active: every cap, unless a test says otherwise; it counts its reads."""

    def __init__(self) -> None:
        self.is_active = True
        self.is_down = False
        self.reads = 0

    def was_active(self, _: str) -> bool:
        """Return the value that the test set."""
        self.reads += 1
        if self.is_down:
            raise StoreUnavailableError("leases may not be listed")
        return self.is_active


class ReplicaFixture(GateFixture):
    """One replica with informers; a test moves its time, its pods and its namespaces."""

    def __init__(self, text: str = CAP, namespaces: tuple[str, ...] = ("team-a",)) -> None:
        self._deletable = _DeletableLedgers(is_standalone=False)
        super().__init__(text, ledgers=self._deletable)
        self.revision = 100
        self.pods, self.namespaces = PodStore(), NamespaceStore()
        self.stored_pods: dict[str, dict[str, Any]] = {}
        self.progress_requests = 0
        self.nonces: list[str] = []
        self.synced_at: float | None = None
        self.usage_lister = UsageLister(
            self.pods, self.namespaces, lambda: self.now, self._get_synced_at, self._request_progress
        )
        self.caps, self.follows_gate = CapIndex(self.policies, None), False
        self.leadership, self.stored = FixedLeadership(), StoredObjects()
        self.record = RecordFixture()
        activation = CapActivation(self.record.was_active, self.read_unix_time, BOUND)
        top_consumers = TopConsumers(lambda: self.now, self.usage_lister, BOUND, Lock())
        self.gate = Gate(
            policies=lambda: self.policies,
            view=ClusterView(
                namespaces=self.namespaces,
                usage_lister=self.usage_lister,
                workload_reader=self.stored,
                cap_sources=lambda: self.cap_sources._replace(annotations=self.namespaces.get_limit_annotations()),
            ),
            ledgers=self.ledgers,
            monotonic=lambda: self.now,
            nonce=self._nonce,
            unix_time=self.read_unix_time,
            top_consumers=top_consumers,
            activation=activation,
        )
        self.reconciler = LedgerReconciler(
            caps=self._get_caps,
            usage_lister=self.usage_lister,
            ledgers=self.ledgers,
            reader=_LiveReader(self.stored_pods),
            monotonic=self._read_clock,
            nonce=self._nonce,
            in_flight_bound=BOUND,
            ages=top_consumers.ages,
            leadership=self.leadership,
            read_workload=partial(read_workload_state, self.stored, self.gate.get_review_targets),
            activation=activation,
        )
        self._count = 0
        self.namespaces.apply(Replaced([_namespace(name, self.revision) for name in namespaces], self.revision))
        self.pods.apply(page(self.revision))

    def follow_gate(self) -> None:
        """Let the reconciler use the caps of the gate from now on, with the limits of the moment."""
        self.follows_gate = True

    def _get_caps(self) -> CapIndex:
        return self.gate.get_active_caps() if self.follows_gate else self.caps

    def get_deadline(self) -> float:
        """Return the time in five seconds."""
        return self.now + 5.0

    def label_namespace(self, name: str, **labels: str) -> None:
        """Create a namespace or change its labels, and deliver the watch event."""
        self.revision += 1
        self.namespaces.apply(Changed(_namespace(name, self.revision, labels), self.revision))

    def annotate_namespace(self, name: str, **texts: str) -> None:
        """Set the annotations of a namespace that set limits, by cap, and deliver the watch event."""
        self.revision += 1
        self.namespaces.apply(Changed(_namespace(name, self.revision, texts=texts), self.revision))

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace, and deliver the watch event."""
        self.revision += 1
        self.namespaces.apply(Deleted(_namespace(name, self.revision), self.revision))

    def store_pod(self, uid: str, gpus: int = 1, namespace: str = "team-a") -> dict[str, Any]:
        """Store a pod without its watch event."""
        self.revision += 1
        self.stored_pods[uid] = stored_pod(uid, self.revision, str(gpus), namespace)
        return self.stored_pods[uid]

    def observe(self, uid: str) -> None:
        """Deliver a watch event with the stored pod."""
        self._apply(line("MODIFIED", self.stored_pods[uid]))

    def delete_pod(self, uid: str) -> None:
        """Delete a pod, and deliver the watch event."""
        deleted = self.stored_pods.pop(uid)
        self.revision += 1
        deleted["metadata"]["resourceVersion"] = str(self.revision)
        self._apply(line("DELETED", deleted))

    def relist(self) -> None:
        """Restart the watch of pods with a list."""
        self.revision += 1
        self.pods.apply(page(self.revision, *self.stored_pods.values()))

    def reconcile(self, seconds: float = 0.0) -> None:
        """Let seconds pass, then reconcile every ledger."""
        self.now += seconds
        keys = dict(self.reconciler.list_ledgers([row.name for row in self.namespaces.list_records()]))
        for key, cap in keys.items():
            self.reconciler.reconcile(key, cap)

    def reconcile_slowly(self, seconds: float) -> None:
        """Reconcile every ledger, where each transaction takes the given seconds."""
        self.take_time(seconds)
        self.reconcile()
        self.take_time(0)

    def take_time(self, seconds: float) -> None:
        """Let each transaction take the given seconds from now on."""

        def wait() -> None:
            self.now += seconds

        self._deletable.after_transaction = wait

    def delete_ledger(self, key: LedgerKey) -> None:
        """Delete a ledger as a user would."""
        self._deletable.delete_ledger(key)

    def forbid_deletion(self, *, is_forbidden: bool) -> None:
        """Set whether the replica may delete ledgers."""
        self._deletable.is_deletion_forbidden = is_forbidden

    def activate_ledgers(self) -> None:
        """Activate the ledgers after the start: the bound, then a write, then a recount."""
        for _ in range(3):
            self.reconcile(BOUND)

    def reconcile_pending(self) -> None:
        """Reconcile the pending ledgers and those of namespace team-a, also after its deletion."""
        caps = {cap.key: cap for cap in self.caps.list_caps()}
        keys = {key: caps[key.cap] for key in self.reconciler.list_pending()} | dict(
            self.reconciler.list_ledgers(["team-a"])
        )
        for key, cap in keys.items():
            self.reconciler.reconcile(key, cap)

    def read_ledger(self, namespace: str = "team-a") -> Ledger:
        """Return the ledger of the only cap."""
        (cap,) = self.caps.list_caps()
        key = LedgerKey(cap.key, "" if cap.definition.shared else namespace)
        found = self.ledgers.transact(key, Read(), self.now + 1)
        assert found is not None
        return found

    def count_gpus(self, namespace: str = "team-a") -> tuple[int, int]:
        """Return the used and the reserved GPUs."""
        ledger = self.read_ledger(namespace)
        return ledger.used.get(GPU, 0), ledger.reserved.get(GPU, 0)

    def request_pod(self, uid: str, gpus: int = 1, namespace: str = "team-a", **request: Any) -> int:
        """Review the creation of a pod and return 200, or the status code of the rejection."""
        requested = stored_pod(uid, 0, str(gpus), namespace)
        decision = self.admit(requested, namespace=namespace, name=f"pod-{uid}", **request)
        body = json.loads(decision.body)["response"]
        return 200 if body["allowed"] else int(body["status"]["code"])

    def _apply(self, event: WatchEvent[Any]) -> None:
        assert isinstance(event, Changed | Deleted)
        self.pods.apply(event)

    def _get_synced_at(self) -> float:
        """Return the current time, unless a test has set another one."""
        return self.now if self.synced_at is None else self.synced_at

    def _request_progress(self) -> None:
        self.progress_requests += 1

    def _nonce(self) -> str:
        self._count += 1
        self.nonces.append(f"n{self._count}")
        return self.nonces[-1]

    def _read_clock(self) -> float:
        """Advance the clock with every read, as a real one does."""
        self.now += 0.001
        return self.now


def create_active_replica(text: str = CAP) -> ReplicaFixture:
    """Return a replica whose ledgers are active."""
    replica = ReplicaFixture(text)
    replica.activate_ledgers()
    return replica


def reserve_and_store(replica: ReplicaFixture, uid: str) -> None:
    """Reserve for a pod and store it without its watch event."""
    assert replica.request_pod(uid) == 200
    replica.store_pod(uid)


def _namespace(
    name: str, revision: int, labels: dict[str, str] | None = None, texts: dict[str, str] | None = None
) -> NamespaceRecord:
    annotations = {f"{ANNOTATION_PREFIX}{cap}": text for cap, text in (texts or {}).items()}
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": str(revision), "labels": labels or {}}
    body = {"metadata": metadata | {"annotations": {"other": "not kept"} | annotations}}
    event = NAMESPACE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": body}).encode())
    assert isinstance(event, Changed)
    row: NamespaceRecord = event.item
    return row
