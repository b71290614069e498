"""The assembly of a gate with a cluster: informers, ledgers, leader election, controllers and events."""

import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock

from tallygate.admission.cap_index import get_cap_name
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.answers.capacity_report import CapacityRecord, list_ledger_capacities
from tallygate.cluster import kinds
from tallygate.gate.asked_policies import AskedPolicies
from tallygate.gate.cap_activation import CapActivation, create_lease_reader, create_process_reader
from tallygate.gate.gate import Gate
from tallygate.gate.leader_election import LeaderElector, Standalone
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.gate.ledger_usages import LedgerUsages
from tallygate.gate.limit_admissions import LimitAdmissions
from tallygate.gate.notifications import NotificationEvent, ObservedConditions
from tallygate.gate.notified_conditions import CapConditions
from tallygate.gate.published_usage import UsagePublisher
from tallygate.gate.restored_caps import RestoredCaps
from tallygate.gate.top_consumers import TopConsumers
from tallygate.kube.client import ClientConfig
from tallygate.policy.model import PolicySet
from tallygate.review.advertised_names import may_be_advertised
from tallygate.review.schedulability import check_schedulability, count_pods_on_nodes
from tallygate.review.view import ClusterView, view_state
from tallygate.review.whole_workloads import read_workload_state
from tallygate.server.controllers.audit_controller import AuditController, AuditSchedule
from tallygate.server.controllers.backstop_controller import BackstopController, BackstopSource
from tallygate.server.controllers.capacity_controller import CapacityController
from tallygate.server.controllers.informers import GateInformers, WaitingNamespaceLister, load_client_config
from tallygate.server.controllers.ledger_controller import LeaseController, LedgerController
from tallygate.server.controllers.limit_record_controller import LimitRecordController
from tallygate.server.controllers.node_resource_controller import NodeResourceController, PublicationSchedule
from tallygate.server.controllers.notification_controller import NotificationController, NotificationSource
from tallygate.server.controllers.registration_controller import CaSource, create_registration_factory
from tallygate.server.controllers.usage_controller import UsageController, UsageSource
from tallygate.server.events.event_recorder import EventRecorder, KubernetesEventWriter, OwnerVerifier
from tallygate.server.https.request_threads import release_turn
from tallygate.server.https.tls_files import read_ca_bundle
from tallygate.server.interfaces import (
    BackgroundPart,
    GateParts,
    NotificationFactory,
    ReadinessStatus,
    RegistrationFactory,
    create_nonce_source,
)
from tallygate.server.notify.notify_config_reader import read_notify_file
from tallygate.server.notify.receiver_sender import create_senders
from tallygate.server.policy_reloader import PolicyReloader
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.controller_metrics import AuditMetrics, CapacityMetrics, LedgerControllerMetrics
from tallygate.server.telemetry.json_log import Logger
from tallygate.server.telemetry.ledger_metrics import CapMetrics
from tallygate.server.telemetry.metrics import Telemetry
from tallygate.server.telemetry.node_resource_metrics import NodeResourceMetrics
from tallygate.server.web.pages.page_address import create_page_finder
from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.live_reader import BoundedWorkloadReader
from tallygate.state.kubernetes.applied_objects import BACKSTOP_OBJECTS, USAGE_OBJECTS, create_object_store
from tallygate.state.kubernetes.capacity_record_store import CapacityRecordStore
from tallygate.state.kubernetes.lease_store import KubernetesLeaseStore
from tallygate.state.kubernetes.ledger_store import KubernetesLedgerStore
from tallygate.state.kubernetes.notification_record_store import NotificationRecordStore
from tallygate.state.kubernetes.registration_store import KubernetesRegistrationStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, Ledgers

# A create or update takes at most this long in the API server (apiserver config.go, RequestTimeout).
_MIN_IN_FLIGHT_BOUND_SECONDS = 34.0


def create_cluster_gate(
    settings: Settings,
    policy_reloader: PolicyReloader,
    asked: AskedPolicies,
    telemetry: Telemetry,
    cap_metrics: CapMetrics,
) -> GateParts:
    """Return the parts of a gate with the cluster of the settings.

    Raises:
        ClientConfigError: if the address of the API server is unknown.
    """
    client_config = load_client_config(settings)
    informers, bound = GateInformers(client_config, telemetry.log), _read_in_flight_bound(settings, telemetry.log)
    activation = _create_activation(client_config, settings, policy_reloader, bound, asked)
    nonce_source, ledgers = create_nonce_source(), _create_ledgers(client_config, settings, cap_metrics)
    admissions = LimitAdmissions(time.monotonic, Lock())
    capacities = _create_capacity_controller(client_config, settings, informers, policy_reloader, telemetry.log)
    top = TopConsumers(time.monotonic, informers.state.usage_lister, bound, Lock())
    gate = Gate(
        policies=policy_reloader.store.get_policies,
        view=_create_view(informers, capacities),
        ledgers=ledgers,
        monotonic=time.monotonic,
        nonce=nonce_source,
        unix_time=time.time,
        find_page=create_page_finder(settings.page_url),
        policy_reviews=policy_reloader.create_reviews(),
        top_consumers=top,
        activation=activation,
        limit_admissions=admissions,
    )
    restored = _create_restored_caps(gate, informers, ledgers, activation, nonce_source)
    elector = _create_elector(client_config, settings, gate, bound, asked, restored)
    reconciler = _create_reconciler(gate, informers, ledgers, nonce_source, bound, top, elector, activation, asked)
    capacities.is_leader = reconciler.is_leader
    cap_metrics.register(gate.get_active_caps, is_standalone=False)
    ledger_controller = _create_ledger_controller(gate, informers, reconciler, cap_metrics, telemetry)
    event_recorder = _create_event_recorder(client_config, settings, telemetry, gate, informers)
    auditor = _create_auditor(client_config, informers, settings, policy_reloader, reconciler, telemetry, capacities)
    recorder = _create_limit_record_controller(client_config, settings, informers, admissions, telemetry)
    backstop = _create_backstop(client_config, settings, gate, informers, policy_reloader, reconciler, telemetry.log)
    usage = _create_usage_controller(client_config, settings, gate, informers, cap_metrics, reconciler, telemetry.log)
    leases = _create_lease_controller(elector, telemetry.log)
    controllers = (ledger_controller, leases, recorder, event_recorder, auditor, backstop, usage)
    workers = (controller.worker for controller in controllers if controller is not None)
    nodes = _list_node_controllers(client_config, settings, policy_reloader, reconciler, telemetry)
    background: list[BackgroundPart] = [informers, capacities, *workers, *nodes]
    return GateParts(
        gate.admit if event_recorder is None else event_recorder.wrap_admit(gate.admit),
        background,
        reconciler.is_leader,
        _create_registration_factory(settings, client_config),
        informers.pod_defaults.gives_devices,
        elector.has_foreign_record if elector is not None else lambda: False,
        _create_notification_factory(client_config, settings, gate, informers, cap_metrics, reconciler, telemetry),
    )


def _create_view(informers: GateInformers, capacities: CapacityController) -> ClusterView:
    snapshots = informers.snapshot_provider
    return replace(
        view_state(informers.state),
        namespaces=WaitingNamespaceLister(informers.state.namespaces),
        quotas=informers.quotas,
        claim_templates=informers.claim_templates,
        cap_sources=capacities.get_cap_sources,
        evaluate_node_rules=partial(check_schedulability, snapshots=snapshots, devices=informers.device_lister),
        workload_reader=BoundedWorkloadReader(informers.live_reader),
        least_amounts=informers.least_amounts,
        is_advertised=partial(may_be_advertised, snapshots=snapshots),
        find_pod_defaults=informers.pod_defaults.find_pod_defaults,
        count_daemon_pods=partial(count_pods_on_nodes, snapshots=snapshots),
    )


def _create_capacity_controller(
    client_config: ClientConfig,
    settings: Settings,
    informers: GateInformers,
    policy_reloader: PolicyReloader,
    log: Logger,
) -> CapacityController:
    return CapacityController(
        state=informers.state,
        policies=policy_reloader.store.get_policies,
        store=CapacityRecordStore(client_config, settings.namespace),
        is_listing=informers.is_listing_capacity,
        monotonic=time.monotonic,
        unix_time=time.time,
        log=log,
    )


def _create_reconciler(  # noqa: PLR0913, PLR0917  # parts of one gate
    gate: Gate,
    informers: GateInformers,
    ledgers: Ledgers,
    nonce_source: Callable[[], str],
    bound: float,
    top: TopConsumers,
    elector: LeaderElector | None,
    activation: CapActivation,
    asked: AskedPolicies,
) -> LedgerReconciler:
    return LedgerReconciler(
        caps=gate.get_active_caps,
        usage_lister=informers.state.usage_lister,
        ledgers=ledgers,
        reader=informers.live_reader,
        monotonic=time.monotonic,
        nonce=nonce_source,
        in_flight_bound=bound,
        ages=top.ages,
        leadership=elector or Standalone(partial(_find_asked_since, gate, asked)),
        read_workload=partial(read_workload_state, informers.live_reader, gate.get_review_targets),
        activation=activation,
    )


def _find_asked_since(gate: Gate, asked: AskedPolicies, key: str) -> float | None:
    """Return the time since which every API server asks about a cap, by its key; None if that is not known."""
    caps = (cap.definition for cap in gate.get_active_caps().list_caps() if cap.policy_key == key)
    return next((asked.find_asked_since(cap) for cap in caps), None)


def _create_limit_record_controller(
    client_config: ClientConfig,
    settings: Settings,
    informers: GateInformers,
    admissions: LimitAdmissions,
    telemetry: Telemetry,
) -> LimitRecordController:
    find_namespace = informers.state.namespaces.find
    return LimitRecordController(client_config, settings.namespace, admissions, find_namespace, telemetry.log)


def _list_node_controllers(
    client_config: ClientConfig,
    settings: Settings,
    policy_reloader: PolicyReloader,
    reconciler: LedgerReconciler,
    telemetry: Telemetry,
) -> Sequence[NodeResourceController]:
    """Return the controller that publishes amounts on nodes, or nothing if the settings disable it."""
    if settings.publish_nodes == "off":
        return ()
    metrics = NodeResourceMetrics(telemetry.metrics.registry, reconciler.is_leader)
    schedule = PublicationSchedule(policy_reloader.store.get_policies, reconciler.is_leader, time.monotonic)
    return (NodeResourceController(client_config, schedule, telemetry.log, metrics),)


def _create_backstop(  # noqa: PLR0913, PLR0917  # what the backstop depends on
    client_config: ClientConfig,
    settings: Settings,
    gate: Gate,
    informers: GateInformers,
    policy_reloader: PolicyReloader,
    reconciler: LedgerReconciler,
    log: Logger,
) -> BackstopController | None:
    """Return the controller that keeps the backstop in the cluster, or None if the settings disable it."""
    if settings.backstop == "off":
        return None
    registration = KubernetesRegistrationStore(client_config, settings.namespace, CONFIGURATION_NAME)

    def list_unrecorded() -> frozenset[str]:
        caps = gate.get_active_caps().list_caps()
        return frozenset(cap.definition.name for cap in caps if not reconciler.is_recorded(cap))

    source = BackstopSource(
        namespace=settings.namespace,
        policies=policy_reloader.store.get_policies,
        list_unrecorded=list_unrecorded,
        observe=informers.observe_cluster,
        read_configurations=registration.read_configurations,
        is_leader=reconciler.is_leader,
        monotonic=time.monotonic,
        now=lambda: datetime.now(UTC),
    )
    return BackstopController(create_object_store(client_config, BACKSTOP_OBJECTS), source, log)


def _create_usage_controller(  # noqa: PLR0913, PLR0917  # what the published usage depends on
    client_config: ClientConfig,
    settings: Settings,
    gate: Gate,
    informers: GateInformers,
    cap_metrics: CapMetrics,
    reconciler: LedgerReconciler,
    log: Logger,
) -> UsageController | None:
    """Return the controller that publishes the usage of caps, or None if the settings disable it."""
    if settings.publish_usage == "off":
        return None

    publisher = UsagePublisher(_create_ledger_usages(gate, informers, cap_metrics))
    source = UsageSource(
        list_statuses=lambda: publisher.list_statuses() if informers.is_current({kinds.NAMESPACES}) else None,
        is_leader=reconciler.is_leader,
        monotonic=time.monotonic,
        now=lambda: datetime.now(UTC),
    )
    return UsageController(create_object_store(client_config, USAGE_OBJECTS), source, log)


def _create_ledger_usages(gate: Gate, informers: GateInformers, cap_metrics: CapMetrics) -> LedgerUsages:
    def list_ledgers() -> Mapping[LedgerKey, Ledger]:
        return {key: observed.ledger for key, observed in cap_metrics.observed_ledgers.list_all().items()}

    return LedgerUsages(informers.state, gate.get_active_caps, list_ledgers)


def _create_notification_factory(  # noqa: PLR0913, PLR0917  # what messages report
    client_config: ClientConfig,
    settings: Settings,
    gate: Gate,
    informers: GateInformers,
    cap_metrics: CapMetrics,
    reconciler: LedgerReconciler,
    telemetry: Telemetry,
) -> NotificationFactory | None:
    """Return the factory of the part that sends messages, or None without a file of receivers.

    Raises:
        NotifyConfigError: if the file is invalid.
    """
    if settings.notify_file is None:
        return None
    config = read_notify_file(settings.notify_file)
    subscriptions = [receiver.create_subscription() for receiver in config.receivers]
    horizon = max(each.seconds.get(NotificationEvent.OVERRIDE_ENDS, 0.0) for each in subscriptions)
    usages = _create_ledger_usages(gate, informers, cap_metrics)
    conditions = CapConditions(usages, gate.get_active_caps, timedelta(seconds=horizon))

    def list_cap_conditions(now: datetime) -> ObservedConditions | None:
        return conditions.list_conditions(now) if informers.is_current({kinds.NAMESPACES}) else None

    def create(list_statuses: Callable[[], Iterable[ReadinessStatus]]) -> NotificationController:
        source = NotificationSource(
            replica=_name_replica(settings),
            list_cap_conditions=list_cap_conditions,
            list_statuses=list_statuses,
            is_leader=reconciler.is_leader,
            now=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
        )
        store = NotificationRecordStore(client_config, settings.namespace, time.time)
        controller = NotificationController(subscriptions, source, store, telemetry.log)
        controller.add_senders(create_senders(config, controller, telemetry))
        return controller

    return create


def _name_replica(settings: Settings) -> str:
    """Return the name of the pod, or outside a cluster the host with the port: it may run several gates."""
    hostname = socket.gethostname()
    return hostname if settings.cluster == "in-cluster" else f"{hostname}:{settings.listen.port}"


def _register_capacity_metrics(
    gate: Gate, informers: GateInformers, reconciler: LedgerReconciler, cap_metrics: CapMetrics, telemetry: Telemetry
) -> None:
    """Register the metrics of what caps grant beside what nodes have."""

    def list_records() -> Sequence[CapacityRecord] | None:
        if not informers.is_current({kinds.NAMESPACES}):
            return None
        ledgers = {key: observed.ledger for key, observed in cap_metrics.observed_ledgers.list_all().items()}
        with informers.snapshot_provider.open_snapshot(pods=True) as snapshot:
            if snapshot is None or not snapshot.has_pods:
                return None
            return list_ledger_capacities(informers.state, gate.get_active_caps(), ledgers, snapshot.cluster)

    CapacityMetrics(telemetry.metrics.registry, list_records, reconciler.is_leader, time.monotonic)


def _create_ledger_controller(
    gate: Gate, informers: GateInformers, reconciler: LedgerReconciler, cap_metrics: CapMetrics, telemetry: Telemetry
) -> LedgerController:
    _register_capacity_metrics(gate, informers, reconciler, cap_metrics, telemetry)
    metrics = LedgerControllerMetrics(
        telemetry.metrics.registry, informers.list_statuses, cap_metrics.observed_ledgers, reconciler.is_leader
    )
    return LedgerController(informers, reconciler, gate.get_active_caps, telemetry.log, metrics)


def _read_in_flight_bound(settings: Settings, log: Logger) -> float:
    """Return the in-flight bound in seconds; log a warning if it is shorter than a request of the API server."""
    bound = settings.in_flight_bound
    if bound < _MIN_IN_FLIGHT_BOUND_SECONDS:
        log.warning("in-flight-bound-too-short", seconds=bound, least=_MIN_IN_FLIGHT_BOUND_SECONDS)
    return bound


def _create_registration_factory(settings: Settings, client_config: ClientConfig) -> RegistrationFactory:
    """Return the factory of a gate whose certificate is in a mounted Secret, with its CAs in `ca.crt` beside it."""
    chain = settings.tls_cert
    remedy = f"add the CA as ca.crt next to tls.crt ({chain}), or run `tallygate certs publish`"
    return create_registration_factory(client_config, CaSource(lambda: read_ca_bundle(chain) if chain else b"", remedy))


def _create_event_recorder(
    client_config: ClientConfig, settings: Settings, telemetry: Telemetry, gate: Gate, informers: GateInformers
) -> EventRecorder | None:
    """Return the recorder of events on owners of pods, or None if the settings disable events."""
    if settings.events == "off":
        return None
    writer = KubernetesEventWriter(client_config, socket.gethostname())
    verifier = OwnerVerifier(informers.live_reader, gate.get_review_targets, time.monotonic)
    registry, log = telemetry.metrics.registry, telemetry.log
    return EventRecorder(writer.write, verifier.is_stored, secrets.token_hex(8), registry, log)


def _create_auditor(  # noqa: PLR0913, PLR0917  # what it judges, by what, and who says how it goes
    client_config: ClientConfig,
    informers: GateInformers,
    settings: Settings,
    policy_reloader: PolicyReloader,
    reconciler: LedgerReconciler,
    telemetry: Telemetry,
    capacities: CapacityController,
) -> AuditController | None:
    """Return the controller that audits stored objects, or None if the settings disable audits."""
    if not settings.audit_interval:
        return None
    schedule = AuditSchedule(
        settings.audit_interval, policy_reloader.store.get_policies, reconciler.is_leader, settings.namespace
    )
    audit_metrics = AuditMetrics(telemetry.metrics.registry, reconciler.is_leader, settings.audit_interval)
    return AuditController(
        client_config,
        informers,
        schedule,
        telemetry.log,
        audit_metrics,
        get_cap_sources=capacities.get_cap_sources,
    )


def _create_activation(
    client_config: ClientConfig,
    settings: Settings,
    policy_reloader: PolicyReloader,
    in_flight_bound: float,
    asked: AskedPolicies,
) -> CapActivation:
    """Return the source of what tells a new cap from one whose ledger is lost: by where the ledgers are.

    Without an admission before the first count, every cap counts as one that was active.
    """
    was_active: Callable[[str], bool]
    if settings.new_caps == "wait":
        was_active = _count_as_active
    elif settings.ledgers == "memory":
        was_active = create_process_reader({cap.name for cap in policy_reloader.store.get_policies().caps})
    else:
        was_active = create_lease_reader(_create_lease_store(client_config, settings))
    find_wait = partial(_find_asked_wait, policy_reloader.store.get_policies, asked)
    return CapActivation(was_active, time.time, in_flight_bound, find_wait)


def _find_asked_wait(policies: Callable[[], PolicySet], asked: AskedPolicies, key: str) -> float:
    """Return the seconds until every API server asks about a cap, by its key; 0 for a cap that is not loaded."""
    name = get_cap_name(key)
    return next((asked.estimate_wait(cap) for cap in policies().caps if cap.name == name), 0.0)


def _count_as_active(_: str) -> bool:
    return True


def _create_lease_store(client_config: ClientConfig, settings: Settings) -> KubernetesLeaseStore:
    return KubernetesLeaseStore(client_config, settings.namespace, lambda: datetime.now(UTC))


def _create_restored_caps(
    gate: Gate, informers: GateInformers, ledgers: Ledgers, activation: CapActivation, nonce: Callable[[], str]
) -> RestoredCaps:
    return RestoredCaps(
        caps=gate.get_active_caps,
        usage_lister=informers.state.usage_lister,
        ledgers=ledgers,
        activation=activation,
        nonce=nonce,
        monotonic=time.monotonic,
    )


def _create_elector(  # noqa: PLR0913, PLR0917  # what a cap waits for before it is recorded
    client_config: ClientConfig,
    settings: Settings,
    gate: Gate,
    in_flight_bound: float,
    asked: AskedPolicies,
    restored: RestoredCaps,
) -> LeaderElector | None:
    """Return the leader elector of the replicas, or None with ledgers in memory, which have one replica only."""
    if settings.ledgers == "memory":
        return None
    store = _create_lease_store(client_config, settings)
    identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
    return LeaderElector(
        store,
        identity,
        lambda: {cap.key: asked.is_asked(cap.definition) for cap in gate.get_active_caps().list_caps()},
        time.monotonic,
        in_flight_bound,
        asked.read_again,
        restored.prepare,
    )


def _create_lease_controller(elector: LeaderElector | None, log: Logger) -> LeaseController | None:
    return LeaseController(elector, log) if elector is not None else None


def _create_ledgers(client_config: ClientConfig, settings: Settings, cap_metrics: CapMetrics) -> Ledgers:
    """Return the ledgers of a gate with a cluster: in memory or in the cluster, by the settings."""
    if settings.ledgers == "memory":
        return MemoryLedgers(is_standalone=False, observer=cap_metrics.memory_observer)
    store = KubernetesLedgerStore(client_config, settings.namespace, lambda: datetime.now(UTC))
    return BatchedLedgers(store, time.monotonic, cap_metrics.cluster_observer, release_turn)
