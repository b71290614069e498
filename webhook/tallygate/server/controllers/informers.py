"""The informers of a server, and the gate's listers on their stores: namespaces, quotas, claim templates, snapshots.

A user who creates a namespace and at once a pod in it is ahead of the watch, so the namespace lister waits. So does the
lister of claim templates. Templates and quotas serve the forecasts for pods and workloads, which the gate gives when a
user creates or applies them. The snapshots of nodes and pods serve rules that ask whether a pod fits on a node.
"""

import time
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from threading import BoundedSemaphore, Condition, Thread
from types import MappingProxyType
from typing import Any, Final

from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, read_git_version
from tallygate.kube.config import load_in_cluster_config, load_kubeconfig
from tallygate.kube.informer import Informer, InformerStatus
from tallygate.kube.reflector import WatchTimeouts
from tallygate.kube.resource_codec import WatchEvent
from tallygate.objects.core import ResourceQuota
from tallygate.objects.devices import ResourceClaim
from tallygate.review.cluster_snapshot import ClusterSnapshot
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.state.informers import namespaced_stores
from tallygate.state.informers.device_cache import DeviceCache
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC
from tallygate.state.informers.live_reader import LiveReader
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    DEVICE_TAINT_RULE_CODEC,
    NODE_CLAIM_CODEC,
    NODE_POOL_CODEC,
    NamespaceStore,
)
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.scheduler_cache import SchedulerCache

_WATCHED_RESOURCES: Final = (
    kinds.NODES,
    kinds.CLAIMS,
    kinds.SLICES,
    kinds.TAINT_RULES,
    kinds.CLASSES,
    NODE_POOL_CODEC.name,
    NODE_CLAIM_CODEC.name,
)
"""The resources that are watched besides namespaces and pods."""
FORECAST_RESOURCES: Final = (
    kinds.QUOTAS,
    kinds.TEMPLATES,
    kinds.LIMIT_RANGES,
    kinds.PRIORITY_CLASSES,
    kinds.RUNTIME_CLASSES,
)
"""The further resources that a gate watches for its forecasts, and a server of asks for its answers."""

GetStatus = Callable[[str], InformerStatus]
"""A function that returns the status of the watch of a resource."""


class ClusterInformers:
    """The informers that fill the stores of one state, each with a thread. `start` works once.

    `others` are the resources that are watched besides those of caps and nodes. Each event is applied within `guard`,
    and then passed to the follower of its resource. Pods that are followed are read with their times.
    `scheduler_cache` is the same cluster in the representation of a scheduler.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # all but the first are what some servers need
        self,
        client_config: ClientConfig,
        timeouts: WatchTimeouts | None = None,
        state: ClusterState | None = None,
        others: Sequence[str] = (),
        guard: AbstractContextManager[object] | None = None,
        followers: Mapping[str, Callable[[WatchEvent[Any]], None]] = MappingProxyType({}),
    ) -> None:
        self._guard = guard or nullcontext()
        self.state = state = ClusterState(time.monotonic) if state is None else state
        self.scheduler_cache = SchedulerCache(
            state.nodes, state.namespaces, state.device_classes, state.node_pools, state.node_claims
        )

        def watch(resource: str) -> Informer[Any, Any]:
            store = state.get_store(resource)
            apply = self._guard_events(store.apply, followers.get(resource))
            return Informer(state.get_codec(resource), client_config, apply, store.__len__, timeouts)

        follow_pods = followers.get(kinds.PODS)
        pods = self.scheduler_cache.create_pod_codec(
            state.pods,
            state.pod_templates,
            has_times=follow_pods is not None,
            has_groups=kinds.POD_GROUPS in others,
        )
        apply_pods = self._guard_events(self._apply_pod_event, follow_pods)
        self._informers: dict[str, Informer[Any, Any]] = {
            kinds.NAMESPACES: watch(kinds.NAMESPACES),
            kinds.PODS: Informer(pods, client_config, apply_pods, state.pods.__len__, timeouts),
        }
        self._informers |= {resource: watch(resource) for resource in (*_WATCHED_RESOURCES, *others)}
        self._others = frozenset(others)

    def _guard_events(
        self, apply: Callable[[WatchEvent[Any]], None], follow: Callable[[WatchEvent[Any]], None] | None
    ) -> Callable[[WatchEvent[Any]], None]:
        def apply_guarded(event: WatchEvent[Any]) -> None:
            with self._guard:
                apply(event)
                if follow is not None:
                    follow(event)

        return apply_guarded

    def _apply_pod_event(self, event: WatchEvent[PodRecord]) -> None:
        self.state.pods.apply(event)
        self.scheduler_cache.apply(event)
        if self.state.pod_templates is not None:
            self.state.pod_templates.apply(event)

    def read_version(self, client: ApiClient) -> None:
        """Apply the rules and messages of the version that the API server reports; call it before the start."""
        git_version = read_git_version(client, _VERSION_TIMEOUT_SECONDS)
        if git_version is not None:
            self.state.set_version(git_version)
            self.scheduler_cache.set_version(git_version)

    def start(self) -> None:
        for informer in self._informers.values():
            informer.start()

    def stop(self) -> None:
        """Stop all informers within about a second; the stores keep their last state."""
        threads = [Thread(target=informer.stop, daemon=True) for informer in self._informers.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def request_progress(self) -> None:
        """Request the revision of the cluster from each informer for caps: the answer takes seconds, not a minute."""
        for resource, informer in self._informers.items():
            if resource not in self._others:
                informer.request_progress()

    def get_status(self, resource: str) -> InformerStatus:
        return self._informers[resource].get_status()

    def list_statuses(self, resources: Container[str] | None = None) -> tuple[InformerStatus, ...]:
        """Return the statuses of the informers of these resources, or of all: each takes some microseconds."""
        return tuple(
            informer.get_status()
            for resource, informer in self._informers.items()
            if resources is None or resource in resources
        )


_NAMESPACE_TIMEOUT_SECONDS: Final = 2.0  # a watch that works is some milliseconds behind


class WaitingNamespaceLister:
    """A `NamespaceLister` that waits up to `timeout` seconds for a namespace that its store does not have yet.

    The API server sends no review for a namespace that does not exist, so the watch is about to deliver an unknown one.
    """

    def __init__(self, store: NamespaceStore, timeout: float = _NAMESPACE_TIMEOUT_SECONDS) -> None:
        self._store = store
        self._timeout = timeout
        self._changed = Condition()
        store.add_listener(self._notify)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Return the namespace's labels, or None if the watch does not deliver the namespace in time."""
        labels = self._store.labels(namespace)
        return labels if labels is not None else self._wait_for_labels(namespace)

    def _wait_for_labels(self, namespace: str) -> Mapping[str, str] | None:
        deadline = time.monotonic() + self._timeout
        with self._changed:
            while (labels := self._store.labels(namespace)) is None:
                if not self._changed.wait(deadline - time.monotonic()):
                    return self._store.labels(namespace)
        return labels

    def _notify(self, _: Collection[str]) -> None:
        with self._changed:
            self._changed.notify_all()


class InformerQuotaLister:
    """A lister of the ResourceQuotas of a cluster. While their watch is stale it returns none, and logs that once."""

    def __init__(self, get_status: GetStatus, log: Logger, store: namespaced_stores.QuotaStore) -> None:
        self._get_status, self._store = get_status, store
        again = "pods and workloads get forecasts of ResourceQuotas again"
        self._unsynced_log = FailureLog(
            partial(log.warning, "quotas-not-evaluated"),
            partial(log.info, "quotas-evaluated", message=again),
            each_change=False,
        )

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """Return the quotas of a namespace, or None while the store is stale or not synced."""
        stale = self._get_status(kinds.QUOTAS).stale
        self._unsynced_log.update(f"pods and workloads get no forecasts of ResourceQuotas: {stale}" if stale else "")
        return None if stale else self._store.list_quotas(namespace)


class InformerPodDefaults:
    """The defaults of new pods by the watched objects; while a watch is stale they are unknown, logged once."""

    def __init__(self, get_status: GetStatus, log: Logger, store: namespaced_stores.PodDefaultsStore) -> None:
        self._get_status, self._store = get_status, store
        again = "forecasts have the defaults of LimitRanges, PriorityClasses and RuntimeClasses again"
        self._unsynced_log = FailureLog(
            partial(log.warning, "pod-defaults-not-evaluated"),
            partial(log.info, "pod-defaults-evaluated", message=again),
            each_change=False,
        )

    def gives_devices(self) -> bool:
        """Return whether pods may get a resource with a domain that they do not write; True while it is not known."""
        is_known = not any(self._get_status(resource).stale for resource in (kinds.LIMIT_RANGES, kinds.RUNTIME_CLASSES))
        return not is_known or self._store.gives_devices()

    def find_pod_defaults(self, namespace: str) -> PodDefaults:
        """Return the values that built-in admission gives new pods of a namespace."""
        resources = (kinds.LIMIT_RANGES, kinds.PRIORITY_CLASSES, kinds.RUNTIME_CLASSES)
        stale = [self._get_status(resource).stale for resource in resources]
        reason = "; ".join(filter(None, stale))
        self._unsynced_log.update(f"forecasts have no defaults of new pods: {reason}" if reason else "")
        return self._store.find(
            namespace,
            has_limit_ranges=not stale[0],
            has_priority_classes=not stale[1],
            has_runtime_classes=not stale[2],
        )


_TEMPLATE_TIMEOUT_SECONDS: Final = 0.2
_MAX_TEMPLATE_WAITS: Final = 4


class InformerClaimTemplateLister:
    """A lister of the ResourceClaimTemplates of a cluster. While their watch is stale it has none, and logs that once.

    A user applies a template and a workload of it at the same time, which is ahead of the watch. So the lister waits up
    to `timeout` seconds for a template that its store does not have yet. Only some threads wait at a time, because a
    template may be missing for ever.
    """

    def __init__(
        self,
        get_status: GetStatus,
        log: Logger,
        store: namespaced_stores.ClaimTemplateStore,
        timeout: float = _TEMPLATE_TIMEOUT_SECONDS,
    ) -> None:
        self._get_status, self.store = get_status, store
        self._timeout = timeout
        self._waits = BoundedSemaphore(_MAX_TEMPLATE_WAITS)
        again = "pods and workloads get forecasts of their claims again"
        self._unsynced_log = FailureLog(
            partial(log.warning, "claim-templates-not-evaluated"),
            partial(log.info, "claim-templates-evaluated", message=again),
            each_change=False,
        )

    def find_known_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as `find_claim` does, without waiting for the template."""
        return None if self._get_status(kinds.TEMPLATES).stale else self.store.find_claim(namespace, name)

    def find_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as a template makes it; None if the template is missing, or the store is stale."""
        stale = self._get_status(kinds.TEMPLATES).stale
        self._unsynced_log.update(f"pods and workloads get no forecasts of their claims: {stale}" if stale else "")
        if stale:
            return None
        claim = self.store.find_claim(namespace, name)
        if claim is None and self._waits.acquire(blocking=False):
            try:
                claim = self.store.find_claim(namespace, name, self._timeout)
            finally:
                self._waits.release()
        return claim


_ListStatuses = Callable[[Container[str]], Sequence[InformerStatus]]
"""A function that returns the statuses of the watches of these resources, as far as they are watched."""

_SNAPSHOT_TIMEOUT_SECONDS: Final = 0.2  # to wait for other threads that use the cache; no review waits longer


class InformerSnapshotProvider:
    """A `SnapshotProvider` on the watched cluster. While nodes or pods are stale it yields None, and logs that.

    The first pod that needs devices lets `device_cache` read them.
    """

    def __init__(
        self,
        scheduler_cache: SchedulerCache,
        list_statuses: _ListStatuses,
        log: Logger,
        device_cache: DeviceCache | None = None,
    ) -> None:
        self._scheduler_cache = scheduler_cache
        self._device_cache = device_cache
        self._list_statuses = list_statuses
        log_unsynced = partial(log.warning, "node-rules-not-evaluated")
        again = partial(log.info, "node-rules-evaluated", message="advertised and schedulable are evaluated again")
        self._unsynced_logs = {pods: FailureLog(log_unsynced, again, each_change=False) for pods in (False, True)}
        self._devices_unsynced_log = FailureLog(
            partial(log.warning, "device-classes-not-evaluated"),
            partial(log.info, "device-classes-evaluated", message="names that no node has are evaluated again"),
            each_change=False,
        )
        self._pools_unread_log = FailureLog(
            partial(log.warning, "node-pools-not-read"), partial(log.info, "node-pools-read"), each_change=False
        )
        self._claims_unevaluated_log = FailureLog(
            partial(log.warning, "pods-with-devices-not-evaluated"),
            partial(log.info, "pods-with-devices-evaluated", message="schedulable is evaluated for pods with claims"),
            each_change=False,
        )

    def request_devices(self) -> None:
        """Read the devices of the cluster in the background, and log why a pod that needs them is not evaluated."""
        if self._device_cache is not None:
            self._device_cache.start_building()
            problem = self._find_device_staleness() or self._device_cache.problem
            self._claims_unevaluated_log.update(
                problem and f"schedulable is not evaluated for pods with claims: {problem}"
            )

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Yield the cluster, or None while it is stale, not synced, or used by other threads for more than 0.2 s."""
        stale, age = _find_staleness(self._list_statuses(_NODES_AND_PODS if pods else _NODES))
        self._unsynced_logs[pods].update(stale and f"advertised and schedulable are not evaluated: {stale}")
        if stale:
            yield None
            return
        has_devices, has_pools = self.has_device_classes(), self.has_pools()
        with self._scheduler_cache.acquire(_SNAPSHOT_TIMEOUT_SECONDS) as cluster:
            if cluster is not None:
                cluster.devices, cluster.now = self._find_devices(), datetime.now(UTC)
            yield (
                ClusterSnapshot(cluster, age, self._scheduler_cache.has_pods, has_devices, has_pools)
                if cluster is not None
                else None
            )

    def has_pools(self) -> bool:
        """Return whether the pools of Karpenter are synced, or this gate may not read them. A change is logged.

        Without the right, the nodes alone show which pools there are.
        """
        statuses = self._list_statuses(_POOL_RESOURCES)
        stale = [status for status in statuses if status.stale]
        self._pools_unread_log.update("; ".join(status.stale or "" for status in stale))
        return all(ApiErrorReason.FORBIDDEN in status.restarts for status in stale)

    def _find_devices(self) -> DeviceIndex | None:
        """Return the devices of the cluster; None until a pod has needed them, and while they are stale."""
        devices = None if self._device_cache is None else self._device_cache.get_index()
        if devices is None or self._find_device_staleness():
            return None
        self._claims_unevaluated_log.update("")
        return devices

    def _find_device_staleness(self) -> str:
        """Return why the objects about devices are stale; empty if they are not."""
        has_rules = self._scheduler_cache.version.has(Switch.APPLIES_TAINT_RULES)
        resources = (*_DEVICE_RESOURCES, DEVICE_TAINT_RULE_CODEC.name) if has_rules else _DEVICE_RESOURCES
        known = {status.name: status for status in self._list_statuses(resources)}
        missing = [name for name in resources if name not in known]
        stale = [each.stale for name in resources if (each := known.get(name)) is not None and each.stale]
        return "; ".join((*(f"{name} are not watched" for name in missing), *stale))

    def has_device_classes(self) -> bool:
        """Return whether the store of device classes is synced; an empty one may be. A change is logged."""
        stale = _describe_staleness(self._list_statuses, DEVICE_CLASS_CODEC.name)
        self._devices_unsynced_log.update(stale and f"names that no node has are not evaluated: {stale}")
        return not stale


class InformerDeviceLister:
    """A `DeviceLister` on the watched cluster. What is stale is not known, which is logged."""

    def __init__(
        self,
        informers: ClusterInformers,
        snapshot_provider: InformerSnapshotProvider,
        least_amounts: LeastAmounts,
        find_claim: Callable[[str, str], ResourceClaim | None],
        log: Logger,
    ) -> None:
        self.find_claim = find_claim
        self._list_statuses = informers.list_statuses
        self._class_store = informers.state.device_classes
        self._snapshot_provider = snapshot_provider
        self._least_amounts = least_amounts
        self._slices_unsynced_log = FailureLog(
            partial(log.warning, "devices-not-evaluated"),
            partial(log.info, "devices-evaluated", message="claims are compared with published devices again"),
            each_change=False,
        )

    def list_classes(self) -> Collection[str] | None:
        """Return the names of all device classes; None while they are stale."""
        if not self._snapshot_provider.has_device_classes():
            return None
        return self._class_store.get_resources_by_class()

    def start_review(self) -> LeastAmountsReview | None:
        """Return the published devices for one review; None while the slices are stale."""
        stale = _describe_staleness(self._list_statuses, RESOURCE_SLICE_CODEC.name)
        self._slices_unsynced_log.update(stale and f"claims are not compared with published devices: {stale}")
        return None if stale else self._least_amounts.start_review()


def _describe_staleness(list_statuses: _ListStatuses, name: str) -> str:
    """Return why the objects of a resource are stale, an empty text if they are not."""
    return next((status.stale or "" for status in list_statuses((name,))), "they are not watched")


def _find_staleness(statuses: Sequence[InformerStatus]) -> tuple[str, float]:
    """Return why one of these resources is stale ("" if none is), and their largest age in seconds."""
    age = max((status.age for status in statuses if status.age is not None), default=0.0)
    return "; ".join(status.stale for status in statuses if status.stale), age


_NODES: Final = frozenset({kinds.NODES})
_NODES_AND_PODS: Final = frozenset({kinds.NODES, kinds.PODS})
_POOL_RESOURCES: Final = frozenset({NODE_POOL_CODEC.name, NODE_CLAIM_CODEC.name})
_DEVICE_RESOURCES: Final = ("resourceslices", "resourceclaims", "resourceclaimtemplates", DEVICE_CLASS_CODEC.name)


_POD_RESOURCES = ("namespaces", "pods")
_CAP_RESOURCES = ("deviceclasses", *_POD_RESOURCES, "resourceclaims")
_VERSION_TIMEOUT_SECONDS = 2.0


def load_client_config(settings: Settings) -> ClientConfig:
    """Return the client configuration for the API server that the settings name.

    Raises:
        ClientConfigError: if the address of the API server is unknown.
    """
    if settings.cluster == "in-cluster":
        return load_in_cluster_config()
    return load_kubeconfig(settings.kubeconfig, settings.context or None)


class GateInformers:
    """The informers of one cluster, which fill its `state`. `live_reader` reads single pods."""

    def __init__(self, client_config: ClientConfig, log: Logger) -> None:
        self.state = state = ClusterState(
            time.monotonic,
            self._get_synced_at,
            self._request_progress,
            pods_synced_at=partial(self._get_synced_at, _POD_RESOURCES),
        )
        self._informers = informers = ClusterInformers(client_config, state=state, others=FORECAST_RESOURCES)
        self.list_statuses = informers.list_statuses
        self.quotas = InformerQuotaLister(informers.get_status, log, state.quotas)
        self.claim_templates = InformerClaimTemplateLister(informers.get_status, log, state.claim_templates)
        self.pod_defaults = InformerPodDefaults(informers.get_status, log, state.pod_defaults)
        scheduler_cache = informers.scheduler_cache
        self.snapshot_provider = InformerSnapshotProvider(
            scheduler_cache,
            self.list_statuses,
            log,
            DeviceCache(scheduler_cache, state.devices, state.taint_rules, state.claims, state.claim_templates),
        )
        self._client = ApiClient(client_config)
        self.least_amounts = LeastAmounts(state.devices.list_slices, state.device_classes.find_selectors)
        self.device_lister = InformerDeviceLister(
            self._informers, self.snapshot_provider, self.least_amounts, self.claim_templates.find_known_claim, log
        )
        self.live_reader = LiveReader(self._client)

    def _request_progress(self) -> None:
        self._informers.request_progress()

    def start(self) -> None:
        """Start all watches, with the rules of the version that the API server reports."""
        self._informers.read_version(self._client)
        self._informers.start()

    def stop(self) -> None:
        """Stop all watches, within about a second."""
        self._client.close()
        self._informers.stop()

    def check(self) -> ReadinessStatus:
        """Return a status that is ready once all that caps count was listed.

        Stale stores stay ready, and the detail reports them: a gate with stale stores is better than no gate.
        """
        statuses = self.list_statuses()
        is_ready = all(status.revision is not None for status in statuses if status.name in _CAP_RESOURCES)
        return ReadinessStatus("watches", is_ready, {status.name: _format_status(status) for status in statuses})

    def is_listing_nodes(self) -> bool:
        """Return whether the nodes or their pools are not listed yet, and no attempt to list them has failed."""
        return any(status.is_listing_first for status in self.list_statuses({kinds.NODES, *_POOL_RESOURCES}))

    def is_listing_capacity(self) -> bool:
        """Return whether nodes, devices or their classes are not listed yet, and no attempt to list them has failed."""
        resources = {kinds.NODES, kinds.SLICES, kinds.CLASSES}
        return any(status.is_listing_first for status in self.list_statuses(resources))

    def is_current(self, resources: Collection[str]) -> bool:
        """Return whether no watch of these resources is stale."""
        return not any(status.stale for status in self.list_statuses(resources))

    def observe_cluster(self, excluded_namespaces: Collection[str]) -> tuple[ObservedCluster, Hashable] | None:
        """Return what compiled objects depend on, and a value that changes with it; None while a watch is stale."""
        if not self.is_current({kinds.NAMESPACES, kinds.CLASSES}):
            return None
        namespaces, classes = self.state.namespaces, self.state.device_classes
        version = namespaces.generation, classes.generation
        labels = {record.name: record.labels for record in namespaces.list_records()}
        return ObservedCluster(labels, classes.get_resources_by_class(), excluded_namespaces), version

    def _get_synced_at(self, resources: Collection[str] = _CAP_RESOURCES) -> float | None:
        """Return the monotonic time at which these resources were last known to be current.

        Return None while the age of a part is unknown. Ages go on while the machine sleeps, this clock may not: then
        the returned time is too early, which is safe.
        """
        ages = [status.age for status in self._informers.list_statuses(resources)]
        known_ages = [age for age in ages if age is not None]
        return time.monotonic() - max(known_ages) if len(known_ages) == len(ages) else None


def _format_status(status: InformerStatus) -> dict[str, object]:
    detail: dict[str, object] = {"objects": status.objects, "revision": status.revision}
    if status.age is not None:
        detail["ageSeconds"] = round(status.age, 1)
    failures = {"stale": status.stale, "crash": status.crash}
    return detail | {name: text for name, text in failures.items() if text}
