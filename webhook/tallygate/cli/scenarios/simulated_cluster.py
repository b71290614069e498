"""A simulated cluster for one scenario: gate, ledger reconciler, API server, controllers, and clock.

Watch events arrive at once. Ledgers are reconciled and controllers retry only when the clock advances.

Only rules that compare pods with nodes, and DaemonSets, need the columns of a cluster, and numpy: other scenarios do
not import these.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import NO_CAPACITIES
from tallygate.admission.evaluate import NodeRuleEvaluator
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.kinds import BUILT_IN_TARGETS, list_review_targets
from tallygate.admission.pod_view import PodView
from tallygate.admission.rule_index import RuleIndex
from tallygate.cli.scenarios.api_server import ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.controllers import ClaimController, ControllerResult, ReplicationController, create_group
from tallygate.cli.scenarios.node_publication import NodePublication
from tallygate.cli.scenarios.scenario import Change, JsonObject, PublishedNode, Scenario
from tallygate.cli.scenarios.scenario_document import AnnotateStep
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import KINDS, KINDS_BY_RESOURCE, NAMESPACES, NODES, PODS
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.gate import Gate
from tallygate.gate.ledger_reconciler import IN_FLIGHT_BOUND_SECONDS, LedgerReconciler
from tallygate.gate.top_consumers import TopConsumers
from tallygate.kube.resource_codec import Changed, Replaced, WatchEvent
from tallygate.objects.core import Namespace
from tallygate.policy.limit_annotations import read_overrides, select_texts
from tallygate.review.owner_chain import POD_GROUP_KIND, POD_GROUPS
from tallygate.review.view import ClusterView, view_state
from tallygate.review.whole_workloads import read_workload_state
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.device_store import SliceRecord
from tallygate.state.informers.named_stores import NAMESPACE_CODEC, NODE_CODEC, NamespaceRecord
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

if TYPE_CHECKING:
    from tallygate.review.cluster_snapshot import ClusterSnapshot
    from tallygate.state.informers.device_cache import DeviceCache
    from tallygate.state.informers.scheduler_cache import SchedulerCache

# As the server's reconciler: soon after a change, then every second while a ledger has reservations.
_FIRST_RECONCILE_SECONDS: Final = 0.2
_RECONCILE_SECONDS: Final = 1.0
_ACTIVATION_RECONCILES: Final = 3  # the in-flight bound, a write after it, a read after (docs/design/caps.md, rule 7)
_DEFAULT_ALLOCATABLE: Final = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "100k"}
_DEFAULT_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NO_NODES: Final = "the scenario has no nodes; write them under nodes"
_NODE: Final = {"apiVersion": "v1", "kind": "Node"}
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace"}


@dataclass(frozen=True, slots=True)
class CapUsage:
    """One ledger in its current state; a name with only a soft limit has no `hard` limit."""

    active_cap: ActiveCap
    namespace: str
    ledger: Ledger
    members: frozenset[str]

    def get_free(self, name: str) -> int | None:
        """Return the free amount; None if no hard limit exists."""
        hard = self.active_cap.hard.get(name)
        return None if hard is None else max(hard - self.ledger.compute_charged().get(name, 0), 0)


class SimulatedCluster:
    """The initial state of a scenario: its namespaces and nodes, active ledgers, no pods."""

    def __init__(self, scenario: Scenario) -> None:
        self.now = self._first_step_at = 1000.0
        self._time = scenario.time or _find_last_end(scenario)
        self._nonce_counter = itertools.count(1)
        self._state = ClusterState(self._read_clock, self._read_clock)
        self._scheduler_cache: SchedulerCache | None = None
        self._device_cache: DeviceCache | None = None
        self._decode_pod_event: Callable[[bytes], WatchEvent[PodRecord]] = self._state.pods.codec.decode_event
        self.store = ApiServerStore(self._send_watch_event)
        self._ledgers = MemoryLedgers(is_standalone=False)
        top_consumers = TopConsumers(self._read_clock, self._state.usage_lister)
        self._gate = Gate(
            policies=lambda: scenario.policies,
            view=self._create_view(scenario),
            ledgers=self._ledgers,
            monotonic=self._read_clock,
            nonce=self._create_nonce,
            unix_time=self._read_unix_time,
            top_consumers=top_consumers,
        )
        self._ledger_reconciler = self._create_reconciler(top_consumers)
        self._targets = targets = list_review_targets(scenario.policies)
        self.api = ApiServer(self._gate, self.store, self._read_clock, targets, self._state.find_pod_defaults)
        self._replication = ReplicationController(self.api, self.store, targets, self._count_stored_daemon_pods)
        self._claim_controller = ClaimController(self.api, self.store)
        self._publication = self._create_publication(scenario)
        self._pods_missing = 0
        self._create_initial_objects(scenario)

    def _create_view(self, scenario: Scenario) -> ClusterView:
        return replace(
            view_state(self._state),
            evaluate_node_rules=self._create_node_check() if RuleIndex(scenario.policies).has_node_rules else None,
            workload_reader=self,
            cap_sources=partial(self._read_cap_sources, scenario),
            count_daemon_pods=self._count_daemon_pods,
        )

    def _read_cap_sources(self, scenario: Scenario) -> CapSources:
        """Return what caps depend on: a capacity is that of the moment, and unknown in a scenario without nodes."""
        now = datetime.fromtimestamp(self._read_unix_time(), UTC)
        sources = self._state.get_cap_sources(scenario.policies, now)
        if scenario.nodes or len(self._state.nodes):
            return sources
        return sources._replace(capacities=NO_CAPACITIES, capacity_problem=_NO_NODES)

    def _create_reconciler(self, top_consumers: TopConsumers) -> LedgerReconciler:
        return LedgerReconciler(
            caps=self._gate.get_active_caps,
            usage_lister=self._state.usage_lister,
            ledgers=self._ledgers,
            reader=self,
            monotonic=self._read_clock,
            nonce=self._create_nonce,
            ages=top_consumers.ages,
            read_workload=partial(read_workload_state, self, self._gate.get_review_targets),
        )

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> "Iterator[ClusterSnapshot | None]":
        """Yield a snapshot of the nodes and the pods with a node name; no scheduler binds the other pods."""
        from tallygate.review.cluster_snapshot import ClusterSnapshot  # noqa: PLC0415  see the module's docstring

        if self._scheduler_cache is None or self._device_cache is None:
            yield None
            return
        if len(self._state.devices):
            self._device_cache.build()
        with self._scheduler_cache.acquire(_FIRST_RECONCILE_SECONDS) as cluster:
            if cluster is None:
                yield None
            else:
                cluster.devices = self._device_cache.get_index()
                yield ClusterSnapshot(cluster, has_pods=pods)

    def _count_daemon_pods(self, view: PodView, content: object, implied: ImpliedRequests) -> int | None:
        """Return the number of pods of a DaemonSet by the nodes of the scenario; None if it has no nodes."""
        nodes = [_add_default_allocatable(body) for _, body in self.store.list_objects("Node")]
        if not nodes:
            return None
        from tallygate.accounting.cluster.cluster import Cluster  # noqa: PLC0415  see the module's docstring
        from tallygate.accounting.cluster.ingest import ingest  # noqa: PLC0415  likewise
        from tallygate.review.cluster_snapshot import FixedSnapshot  # noqa: PLC0415  likewise
        from tallygate.review.schedulability import count_pods_on_nodes  # noqa: PLC0415  likewise

        cluster = Cluster()
        for node in nodes:
            ingest(cluster, "Node", msgspec.json.encode(node))
        return count_pods_on_nodes(view, content, implied, FixedSnapshot(cluster, has_pods=False))

    def _count_stored_daemon_pods(self, daemon_set: JsonObject) -> int:
        content, target = msgspec.json.encode(daemon_set), BUILT_IN_TARGETS["apps", "DaemonSet"]
        (view,) = target.list_pods(target.decode(content))
        defaults = self._state.find_pod_defaults(str(daemon_set["metadata"]["namespace"]))
        return self._count_daemon_pods(view, content, NO_IMPLIED.with_defaults(defaults)) or 0

    def request_devices(self) -> None:
        """Do nothing: a snapshot has the devices of the scenario; in one without any, they are unknown."""

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Return the revision of a stored pod or claim for the reconciler; None if it is missing or has another uid."""
        kind_name = "ResourceClaim" if kind is ConsumerKind.CLAIM else "Pod"
        stored = self.store.find(ObjectKey(kind_name, namespace, name))
        return int(stored["metadata"]["resourceVersion"]) if stored and stored["metadata"]["uid"] == uid else None

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the JSON of a stored object of this group, version and plural; None if it does not exist.

        The PodGroup of a Job, which is not stored, exists as long as the Job.
        """
        group, _, plural = resource
        if (group, plural) == (POD_GROUP_KIND[0], POD_GROUPS):
            job = self.store.find(ObjectKey("Job", namespace, name))
            return None if job is None else msgspec.json.encode(create_group(job))
        for (kind_group, kind), target in self._targets.items():
            if (kind_group, target.plural) == (group, plural):
                names = (kind,) if target.definition is None else (f"{kind}.{group}", kind)
                found = [self.store.find(ObjectKey(known_name, namespace, name)) for known_name in names]
                stored = next((candidate for candidate in found if candidate is not None), None)
                return None if stored is None else msgspec.json.encode(stored)
        return None

    def reconcile(self, *, retry: bool = False) -> ControllerResult:
        """Run every controller once; a rejected create is repeated if its owner has changed or `retry` is set."""
        result = self._replication.reconcile(retry=retry)
        self._pods_missing = result.pods_missing
        events = (*result.events, *self._claim_controller.reconcile(retry=retry))
        self._publish_on_nodes()
        return replace(result, events=events)

    def wait(self, seconds: float) -> ControllerResult:
        """Advance the clock. Controllers retry rejected creates after 1, 2, 4, 8 … seconds."""
        started_at, end = self.now, self.now + seconds
        result, retry_delay = ControllerResult(pods_missing=self._pods_missing), 1.0
        self.now = min(started_at + _FIRST_RECONCILE_SECONDS, end)
        self._reconcile_ledgers()
        while self.now < end:
            self.now = min(self.now + _RECONCILE_SECONDS, end)
            if self.now >= started_at + retry_delay:
                result, retry_delay = result + self.reconcile(retry=True), retry_delay * 2
            self._reconcile_ledgers()
            if not self._ledger_reconciler.list_pending():
                self.now = max(self.now, min(started_at + retry_delay, end))
        self._reconcile_ledgers()  # by the limits of the end
        self._publish_on_nodes()
        return result

    def list_cap_usages(self) -> list[CapUsage]:
        """Return every ledger of the scenario's namespaces, ordered by cap and namespace."""
        cap_usages = [
            CapUsage(active_cap, key.namespace, self._read_ledger(key), self._list_members(active_cap, key))
            for key, active_cap in self._list_ledger_keys()
        ]
        return sorted(
            cap_usages, key=lambda each: (each.active_cap.definition.name, each.active_cap.group, each.namespace)
        )

    def list_published_nodes(self) -> list[PublishedNode]:
        """Return the nodes with what NodeResources publish on them; none without such policies."""
        return [] if self._publication is None else self._publication.list_nodes()

    def _publish_on_nodes(self) -> None:
        if self._publication is not None:
            self._publication.reconcile()

    def _create_publication(self, scenario: Scenario) -> NodePublication | None:
        definitions = scenario.policies.node_resources
        return NodePublication(self.store, definitions, self._read_clock) if definitions else None

    def _list_members(self, active_cap: ActiveCap, key: LedgerKey) -> frozenset[str]:
        membership = self._state.usage_lister.find_membership(active_cap, key)
        return membership.names if membership else frozenset()

    def _create_node_check(self) -> NodeRuleEvaluator:
        from tallygate.review.advertised_devices import KnownDevices  # noqa: PLC0415  see the module's docstring
        from tallygate.review.schedulability import check_schedulability  # noqa: PLC0415  likewise
        from tallygate.state.informers.device_cache import DeviceCache  # noqa: PLC0415  likewise
        from tallygate.state.informers.scheduler_cache import SchedulerCache  # noqa: PLC0415  likewise

        state = self._state
        self._scheduler_cache = SchedulerCache(
            state.nodes, state.namespaces, state.device_classes, state.node_pools, state.node_claims
        )
        self._device_cache = DeviceCache(
            self._scheduler_cache, state.devices, state.taint_rules, state.claims, state.claim_templates
        )
        self._decode_pod_event = self._scheduler_cache.create_pod_codec(state.pods).decode_event
        least_amounts = LeastAmounts(self._list_slices, state.device_classes.find_selectors)
        devices = KnownDevices(self._list_classes, least_amounts, state.claim_templates.find_claim)
        return partial(check_schedulability, snapshots=self, devices=devices)

    def _list_classes(self) -> Collection[str] | None:
        """Return the names of the classes; None for a scenario without any, which leaves them out."""
        return self._state.device_classes.get_resources_by_class() or None

    def _list_slices(self) -> Sequence[SliceRecord] | None:
        """Return the slices; None for a scenario without any, which leaves them out, and while a pool is incomplete."""
        return self._state.devices.list_slices() or None

    def _create_initial_objects(self, scenario: Scenario) -> None:
        names = scenario.namespaces.items()
        for name, body in scenario.nodes.items():
            metadata = {"name": name, "uid": self.store.create_uid(), "labels": body.get("labels", {})}
            metadata["annotations"] = body.get("annotations", {})
            status = {"allocatable": body.get("allocatable", {}), "capacity": body.get("allocatable", {})}
            spec = {"podCIDRs": body.get("podCIDRs", []), "taints": body.get("taints", [])}
            node = {**_NODE, "metadata": metadata, "spec": spec, "status": status}
            self.store.put(ObjectKey("Node", "", name), node)
        for name, labels in names:
            metadata = {"name": name, "uid": self.store.create_uid(), "labels": dict(labels)}
            if annotations := scenario.annotations.get(name):
                metadata["annotations"] = dict(annotations)
            self.store.put(ObjectKey("Namespace", "", name), {**_NAMESPACE, "metadata": metadata})
        namespace_records = [_create_namespace_record(body) for _, body in self.store.list_objects("Namespace")]
        self._state.namespaces.apply(Replaced(namespace_records, self.store.revision))
        node_events = [
            NODE_CODEC.decode_event(_encode_watch_event("ADDED", _add_default_allocatable(body)))
            for _, body in self.store.list_objects("Node")
        ]
        self._state.nodes.apply(
            Replaced([event.item for event in node_events if isinstance(event, Changed)], self.store.revision)
        )
        self._publish_on_nodes()
        self._apply_pod_event(Replaced((), self.store.revision))
        for resource in KINDS_BY_RESOURCE.keys() - {NAMESPACES, NODES, PODS}:
            self._state.get_store(resource).apply(Replaced((), self.store.revision))
        for _ in range(_ACTIVATION_RECONCILES):
            self.now = self._first_step_at = self.now + IN_FLIGHT_BOUND_SECONDS
            self._reconcile_ledgers()

    def _reconcile_ledgers(self) -> None:
        for key, active_cap in self._list_ledger_keys():
            self._ledger_reconciler.reconcile(key, active_cap)

    def _list_ledger_keys(self) -> Sequence[tuple[LedgerKey, ActiveCap]]:
        return list(
            self._ledger_reconciler.list_ledgers([record.name for record in self._state.namespaces.list_records()])
        )

    def _read_ledger(self, key: LedgerKey) -> Ledger:
        return self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(Amounts())

    def _send_watch_event(self, event: str, key: ObjectKey, body: JsonObject) -> None:
        content = _encode_watch_event(event, _add_default_allocatable(body) if key.kind == "Node" else body)
        if key.kind == "Pod":
            self._apply_pod_event(self._decode_pod_event(content))
        elif key.kind in KINDS:
            resource = KINDS[key.kind].resource
            self._state.get_store(resource).apply(self._state.get_codec(resource).decode_event(content))

    def _apply_pod_event(self, event: WatchEvent[PodRecord]) -> None:
        self._state.pods.apply(event)
        if self._scheduler_cache is not None:
            self._scheduler_cache.apply(event)

    def _read_clock(self) -> float:
        return self.now

    def _read_unix_time(self) -> float:
        return self._time.timestamp() + self.now - self._first_step_at

    def _create_nonce(self) -> str:
        return f"attempt-{next(self._nonce_counter)}"


def _find_last_end(scenario: Scenario) -> datetime:
    """Return the time from which on no override of a limit is active; a fixed time without overrides that end."""
    written = (step.action.written for step in scenario.steps if isinstance(step.action, Change))
    changes = (change.annotations for change in written if isinstance(change, AnnotateStep))
    annotations = [
        {"": select_texts({key: text for key, text in annotation.items() if text is not None})}
        for annotation in (*scenario.annotations.values(), *changes)
    ]
    caps = scenario.policies.caps
    overrides = [override for cap in caps for texts in annotations for override in read_overrides(cap, texts).values()]
    overrides += [override for cap in caps for override in cap.overrides]
    return max((override.until for override in overrides if override.until is not None), default=_DEFAULT_TIME)


def _encode_watch_event(event: str, body: JsonObject) -> bytes:
    return msgspec.json.encode({"type": event, "object": body})


def _add_default_allocatable(node: JsonObject) -> JsonObject:
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    return {**node, "status": {**status, "allocatable": {**_DEFAULT_ALLOCATABLE, **allocatable}}}


def _create_namespace_record(body: JsonObject) -> NamespaceRecord:
    return NAMESPACE_CODEC.create_record(msgspec.json.decode(msgspec.json.encode(body), type=Namespace))
