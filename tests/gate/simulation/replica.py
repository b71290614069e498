"""A replica: stores, lister, batches and reconciler of the product, put together as `tallygate.server.serve` does."""

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.kinds import REVIEW_TARGETS, DecodedRequest
from tallygate.admission.request import AdmissionRequest
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charging import charge_consumer
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.kube.reflector import Freshness
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.review.cap_charge import CapCharge, ChargedConsumer
from tallygate.review.charged_requests import UndecidedChargeError, compute_request_charges
from tallygate.review.owner_chain import OwnerChains, UnreadableOwnerError
from tallygate.review.whole_workloads import read_workload_state
from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Operation
from tallygate.state.ledger.reserve import WorkloadTerms
from tallygate.state.ports import LedgerKey, RetryLaterError
from tests.gate.simulation.claim_reviews import create_review
from tests.gate.simulation.cluster_objects import Namespace, Owner
from tests.gate.simulation.counts import CountRecorder, RecordedClaims, RecordedDevices, RecordedLister, RecordedPods
from tests.gate.simulation.device_policies import MAPPED, PolicyVersion, list_ledger_caps
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.histories import History, Watch
from tests.gate.simulation.requests import Request
from tests.gate.simulation.store import Store
from tests.state.informers.claims import claim_line, claim_page
from tests.state.informers.pods import GPU, line, page
from tests.state.informers.slices import slice_line, slice_page

BOUND = 8.0
"""The in-flight bound in seconds."""
CHARGE_SECONDS = 4.0
"""The time that a replica has for a decision."""
_DAY = 86_400.0
_LISTED = 2
"""The watches of pods and claims decide about the age of the stores, that of slices does not."""


class SeenRevisions(NamedTuple):
    """The revisions up to which a replica has seen pods, claims and namespaces."""

    pods: int
    claims: int
    namespaces: int


class Decided(NamedTuple):
    """A decision: whether the object is admitted, the ledgers of its caps, and the nonce of its last attempt.

    `class_state` is that of the class of claims as the replica saw it.
    """

    is_admitted: bool
    keys: Sequence[LedgerKey]
    attempt: str
    class_state: str = MAPPED


class Replica:
    """One process. A crash replaces it by a new one, which remembers nothing and lists everything again."""

    def __init__(
        self, number: int, truth: GroundTruth, recorder: CountRecorder, store: Store, policy: PolicyVersion
    ) -> None:
        self.number = number
        self.is_frozen = False
        self.leads = number == 0
        self.policy = policy
        self._truth = truth
        self._store = store
        self._tasks = recorder.tasks
        self._clock_offset = number * 7 * _DAY - truth.now
        self._namespace_freshness = Freshness()
        self._namespace_position = 0
        self._class_position = len(truth.class_states) - 1
        self.namespaces = NamespaceStore()
        self.claims: RecordedClaims | None = None
        has_claims = any(each.counts_claims for each in policy.caps.list_caps())
        self._usage_lister = self._create_device_stores(recorder) if has_claims else self._create_pod_store()
        self._ledgers = BatchedLedgers(store, self.clock)
        self._cap_activation = CapActivation(store.was_active, self.clock, BOUND)
        self.reconciler = LedgerReconciler(
            caps=self.get_caps,
            usage_lister=self._usage_lister,
            ledgers=self._ledgers,
            reader=store,
            monotonic=self.clock,
            nonce=self.create_nonce,
            in_flight_bound=BOUND,
            leadership=self,
            read_workload=partial(read_workload_state, store, lambda: REVIEW_TARGETS),
            activation=self._cap_activation,
        )
        self._owner_chains = OwnerChains(store, self.clock)
        self.loaded: dict[str, int] = {}
        """For each active cap, the revision of the cluster at which this replica activated it."""
        self.load(policy)
        self._list_namespaces()
        for watch in self.watches:
            watch.relist()

    def _create_pod_store(self) -> UsageLister:
        """Create the store and the watch of a cluster without claims, and return their lister."""
        self.pods: PodStore = PodStore()
        self.watches = [self._create_watch("pods", self._truth.pod_history, self.pods.apply, line, page)]
        return UsageLister(self.pods, self.namespaces, self.clock, self._find_confirmed_at)

    def _create_device_stores(self, recorder: CountRecorder) -> UsageLister:
        """Create the stores and the watches of pods, claims and slices, and return their lister."""
        self.pods = RecordedPods(recorder)
        claims = self.claims = RecordedClaims(recorder, self.clock)
        self.devices = RecordedDevices(recorder, claims.list_devices)
        self.watches = [
            self._create_watch("pods", self._truth.pod_history, self.pods.apply, line, page),
            self._create_watch("claims", self._truth.claim_history, claims.apply, claim_line, claim_page),
            self._create_watch("slices", self._truth.slice_history, self.devices.apply, slice_line, slice_page),
        ]
        return RecordedLister(
            recorder,
            self.pods,
            self.namespaces,
            self.clock,
            self._find_confirmed_at,
            claims=claims,
            devices=self.devices,
        )

    def _create_watch(self, name: str, history: History[Any], *ports: Any) -> Watch[Any, Any]:
        return Watch(name, history, *ports, get_revision=lambda: self._truth.revision, clock=self.clock)

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

    def is_recorded(self, cap: str) -> bool:
        """Return whether the record has a cap."""
        return cap in self._truth.recorded

    def get_loaded_everywhere_since(self, cap: str) -> float | None:
        """Return the time since which every replica has had a new cap, and a time before every list for others."""
        loaded_at = self._truth.loaded_at.get(cap)
        if loaded_at is None:
            return -math.inf if cap in self._truth.recorded else None
        return loaded_at + self.clock() - self._truth.clock()

    def load(self, policy: PolicyVersion) -> None:
        """Load a version of the policies; a new cap is active since the current revision of the cluster."""
        self.policy, caps = policy, list_ledger_caps(policy.caps)
        self.loaded = {each.key: self.loaded.get(each.key, self._truth.revision) for each in caps}
        self._activate()

    def _activate(self) -> None:
        self._usage_lister.set_active_caps([cap.active_key for cap in self.get_caps().list_caps()])

    @property
    def class_state(self) -> str:
        """The state of the class as it sees it."""
        return self._truth.class_states[self._class_position]

    def watch_class(self) -> bool:
        """See the next state of the class; return whether there was one."""
        if self._class_position + 1 == len(self._truth.class_states):
            return False
        self._class_position += 1
        self._activate()
        return True

    def get_caps(self) -> CapIndex:
        """Return the active caps."""
        return self.policy.caps_by_state.get(self.class_state, self.policy.caps)

    def check_limits(self) -> None:
        """Check its own limits, where they follow what it has seen of the cluster.

        Raises:
            ViolationError: if one of them is wrong.
        """

    def knows_namespace(self, namespace: str) -> bool:
        """Return whether it has seen a namespace; it rejects pods of others at once."""
        return self.namespaces.find(namespace) is not None

    def decide(self, request: Request) -> Decided:
        """Charge the object of a request with the product's own code, under the caps of its namespace.

        Raises:
            RetryLaterError: if there is no decision, or the namespace was deleted.
            StoreUnavailableError: if a ledger cannot be read or written.
        """
        class_state, attempt = self.class_state, self.create_nonce()
        caps = self._find_caps(request.namespace)
        if request.claim is not None:
            is_admitted = self._charge_claim(create_review(request), caps, attempt)
        else:
            is_admitted = self._charge_pods(request, caps, attempt)
        keys = [get_ledger_key(cap, request.namespace) for cap in caps]
        return Decided(is_admitted, keys, attempt, class_state)

    def _charge_pods(self, request: Request, caps: Sequence[ActiveCap], attempt: str) -> bool:
        """Charge a pod or workload; return whether no cap is exceeded."""
        pod = ChargedConsumer(request.uid, request.namespace, request.stored_name, attempt, request.operation)
        if request.workload is not None:
            pod = replace(pod, kind=ConsumerKind.WORKLOAD, workload=WorkloadTerms("batch/v1/Job"))
        elif request.owner is not None and request.operation is Operation.CREATE:
            pod = replace(pod, workload=WorkloadTerms(owner_uids=self._list_owners(request.namespace, request.owner)))
        current, requested = _to_amounts(request.old_size), _to_amounts(request.size)
        return self._charge(pod, [CapCharge(cap, current, requested, may_exceed=False) for cap in caps])

    def _list_owners(self, namespace: str, owner: Owner) -> tuple[str, ...]:
        metadata = ObjectMeta(owner_references=[msgspec.convert(owner.to_reference(), OwnerReference)])
        try:
            controllers = self._owner_chains.list_controllers(namespace, metadata, REVIEW_TARGETS)
        except UnreadableOwnerError as error:
            raise RetryLaterError(str(error)) from error
        return tuple(each.uid for each in controllers)

    def _charge_claim(self, review: AdmissionRequest, caps: Sequence[ActiveCap], attempt: str) -> bool:
        """Charge a claim; return whether no cap is exceeded."""
        try:
            found = compute_request_charges(
                DecodedRequest(review, REVIEW_TARGETS), caps, attempt, self._usage_lister.find_device
            )
        except UndecidedChargeError as error:
            raise RetryLaterError(str(error)) from error
        return found is None or self._charge(found.consumer, found.charges)

    def _find_caps(self, namespace: str) -> Sequence[ActiveCap]:
        labels = self.namespaces.labels(namespace)
        if labels is None:
            raise RetryLaterError(f"namespace {namespace} is not known here")
        return self.get_caps().find_matching(namespace, labels).caps

    def _charge(self, consumer: ChargedConsumer, charges: Sequence[CapCharge]) -> bool:
        result = charge_consumer(
            self._ledgers,
            consumer,
            charges,
            self.clock() + CHARGE_SECONDS,
            self._usage_lister,
            activation=self._cap_activation,
        )
        if result.obstacles and not result.exceeded:
            raise RetryLaterError(f"{result.obstacles}")
        return not result.exceeded

    def list_ledgers(self) -> list[tuple[LedgerKey, ActiveCap]]:
        """Return the ledgers that it reconciles, last those without member namespaces, which it may delete."""
        caps = self.get_caps()
        found = {key: caps.find_cap(key.cap, key.namespace) for key in self.reconciler.list_pending()}
        pending = {key: cap for key, cap in found.items() if cap is not None}
        names = {event.name for event in self._truth.namespace_events}
        ledgers = pending | dict(self.reconciler.list_ledgers(sorted(names)))
        return sorted(ledgers.items(), key=lambda each: (self._has_no_members(*each), each[0].namespace, each[0].cap))

    def _has_no_members(self, key: LedgerKey, cap: ActiveCap) -> bool:
        membership = self._usage_lister.find_membership(cap, key)
        return membership is not None and not membership.names

    # Watches

    def list_seen_revisions(self) -> SeenRevisions:
        """Return the revisions up to which it has seen pods, claims and namespaces."""
        claims = self.claims.revision if self.claims is not None else 0
        return SeenRevisions(self.pods.revision or 0, claims or 0, self.namespaces.revision or 0)

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

    def catch_up(self) -> None:
        """Receive every event, and the proof that there are no more."""
        for watch in self.watches:
            watch.catch_up()
        while self.watch_namespaces() or self.watch_class():
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
        moments = [self._namespace_freshness.confirmed_at, *(each.confirmed_at for each in self.watches[:_LISTED])]
        known = [each for each in moments if each is not None]
        return min(known) if len(known) == len(moments) else None


def _to_amounts(size: int) -> Amounts:
    return Amounts({GPU: size}) if size else Amounts()


def _to_record(namespace: Namespace) -> NamespaceRecord:
    meta = {"name": namespace.name, "uid": namespace.uid, "resourceVersion": str(namespace.revision)}
    body = {"metadata": meta | {"labels": namespace.labels, "annotations": namespace.annotations}}
    event = NAMESPACE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": body}).encode())
    assert isinstance(event, Changed)
    record: NamespaceRecord = event.item
    return record
