"""The live state of a cluster for asks: complete, consistent, and for one ask at a time.

Watches apply their events between two asks, so that an ask may change the state and take its changes back. Nothing
else reads the state meanwhile: this belongs in a process of its own, where no gate waits for it.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any, Final

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.pod_defaults import LimitRangeIndex
from tallygate.answers.live_hours import LiveHours
from tallygate.cluster import kinds
from tallygate.cluster.cap_ledger_list import LEDGER_RECORD_CODEC, CapLedgerList, CapLedgerStore
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.informer import Informer, InformerStatus
from tallygate.kube.reflector import WatchTimeouts
from tallygate.kube.resource_codec import WatchEvent
from tallygate.server.asking.answerer import OpenedState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.rate import create_busy_error
from tallygate.server.controllers.informers import FORECAST_RESOURCES, ClusterInformers
from tallygate.server.interfaces import ReadinessStatus
from tallygate.state.informers.device_cache import DeviceCache
from tallygate.state.informers.pod_templates import PodTemplates

_RETRY_AFTER_SECONDS: Final = 5
_REQUIRED: Final = (kinds.NAMESPACES, kinds.PODS, kinds.NODES)
"""The resources without which no answer has a value; without others an answer says what is not known."""


class AskedCluster:
    """The watches of one cluster, and the state that they fill; `start` works once.

    `get_time` returns the time at which an event is seen, in seconds since 1970. `feature_gates` count as on: of others
    it is not known before a PodGroup has used them.
    """

    def __init__(
        self,
        client_config: ClientConfig,
        timeouts: WatchTimeouts | None = None,
        get_time: Callable[[], float] = time.time,
        feature_gates: Collection[str] = (),
    ) -> None:
        self._lock = Lock()
        self._client = ApiClient(client_config)
        state = ClusterState(time.monotonic)
        state.pod_templates = PodTemplates()
        self._hours = LiveHours(lambda: int(get_time()), state.device_classes.get_resources_by_class)
        followers: dict[str, Callable[[WatchEvent[Any]], None]] = {
            kinds.NAMESPACES: self._hours.apply_namespaces,
            kinds.PODS: self._hours.apply_pods,
            kinds.CLAIMS: self._hours.apply_claims,
        }
        others = (*FORECAST_RESOURCES, kinds.POD_GROUPS)
        self._informers = ClusterInformers(client_config, timeouts, state, others, self._lock, followers)
        self._ledgers = CapLedgerStore()
        self._ledger_informer = Informer(
            LEDGER_RECORD_CODEC, client_config, self._ledgers.apply, self._ledgers.__len__, timeouts
        )
        self._cache = self._informers.scheduler_cache
        self._devices = DeviceCache(self._cache, state.devices, state.taint_rules, state.claims, state.claim_templates)
        self._limit_ranges: tuple[int | None, LimitRangeIndex] = None, LimitRangeIndex()
        self._groups_revision: int | None = None
        self._feature_gates = feature_gates

    def start(self) -> None:
        """Start all watches, with the rules of the version that the API server reports."""
        self._informers.read_version(self._client)
        self._informers.start()
        self._ledger_informer.start()
        self._devices.start_building()

    def stop(self) -> None:
        """Stop all watches, within about a second."""
        self._client.close()
        self._informers.stop()
        self._ledger_informer.stop()

    def check(self) -> ReadinessStatus:
        """Return a status that is ready once namespaces, pods and nodes were listed, and all else was tried.

        Before, answers would call unknown what is known a moment later.
        """
        statuses = [self._informers.get_status(resource) for resource in _REQUIRED]
        detail = {status.name: {"objects": status.objects, "stale": status.stale} for status in statuses}
        watches = (*self.list_watches(), self._ledger_informer.get_status())
        is_reading = not self._devices.is_built or any(status.is_listing_first for status in watches)
        is_ready = not is_reading and all(status.revision is not None for status in statuses)
        return ReadinessStatus("watches", is_ready, detail)

    def list_watches(self) -> tuple[InformerStatus, ...]:
        """Return the status of each watch."""
        return self._informers.list_statuses()

    @contextmanager
    def open_state(self, timeout: float) -> Iterator[OpenedState]:
        """Yield the state, which nothing else changes or reads meanwhile; wait for it at most `timeout` seconds.

        Raises:
            AskError: with 429 if others use it for longer; with 503 while namespaces, pods or nodes are not current.
        """
        deadline = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            raise create_busy_error("other asks take all the time", 0.0)
        try:
            with self._cache.acquire(max(0.0, deadline - time.monotonic())) as cluster:
                if cluster is None:
                    raise create_busy_error("the state is being changed", 0.0)
                yield self._prepare(cluster)
        finally:
            self._lock.release()

    def _prepare(self, cluster: Cluster) -> OpenedState:
        statuses = [self._informers.get_status(resource) for resource in _REQUIRED]
        stale = [status for status in statuses if status.stale]
        if stale or not self._cache.has_pods:
            names = ", ".join(status.name for status in stale) or kinds.PODS
            message = f"the {names} of the cluster are not known at present. Ask again in {_RETRY_AFTER_SECONDS} s"
            detail = "; ".join(status.stale or "" for status in stale)
            raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, message, _RETRY_AFTER_SECONDS, detail=detail)
        state, now = self._informers.state, datetime.now(UTC)
        state.columns, state.problems = cluster, dict(self._list_problems())
        state.ledgers = self._list_ledgers()
        self._set_defaults(cluster, state)
        self._set_pod_groups(cluster, state)
        cluster.now, cluster.devices = now, self._devices.get_index()
        cluster.devices_problem = state.describe_device_problems()
        if cluster.devices_problem:
            cluster.devices = None
        elif cluster.devices is None:
            cluster.devices_problem = "they are being read, or one of them cannot be read"
        age = max(status.age or 0.0 for status in statuses)
        return OpenedState(state, now - timedelta(seconds=age), self._hours)

    def _list_problems(self) -> Iterator[tuple[str, kinds.KindProblem]]:
        """Yield for each resource that is not current why it is not; no text of the API server, which has its names."""
        for resource in kinds.KINDS_BY_RESOURCE:
            status = self._informers.get_status(resource)
            if status.stale:
                yield resource, kinds.KindProblem(_find_reason(status))

    def _list_ledgers(self) -> CapLedgerList:
        """Return the ledgers of the gate; none with a reason, while they are not current: amounts are counted then."""
        status = self._ledger_informer.get_status()
        if not status.stale:
            return self._ledgers.list_ledgers()
        is_forbidden = _find_reason(status) is kinds.UnknownReason.FORBIDDEN
        reason = "this server may not list CapLedgers" if is_forbidden else "the CapLedgers are not known at present"
        return CapLedgerList(missing_reason=reason, unavailable_reason=reason)

    def _set_defaults(self, cluster: Cluster, state: ClusterState) -> None:
        """Set what admission gives new pods: the columns of a watched cluster do not have it."""
        defaults = state.pod_defaults
        cluster.priority_classes = {
            record.name: record.content for record in defaults.priority_classes.list_records("")
        }
        classes = {record.name: record.content for record in defaults.runtime_classes.list_records("")}
        cluster.runtime_classes = classes if state.knows(kinds.RUNTIME_CLASSES) else None
        if self._limit_ranges[0] != defaults.limit_ranges.revision:
            index = LimitRangeIndex()
            for namespace in defaults.limit_ranges.list_namespaces():
                for record in defaults.limit_ranges.list_records(namespace):
                    index.put_in(namespace, record.name, record.content)
            self._limit_ranges = defaults.limit_ranges.revision, index
        cluster.limit_ranges = self._limit_ranges[1] if state.knows(kinds.LIMIT_RANGES) else None

    def _set_pod_groups(self, cluster: Cluster, state: ClusterState) -> None:
        """Set the PodGroups, whose pods the cache keeps: they are known while their watch is current."""
        store, groups = state.pod_groups, cluster.pod_groups
        groups.turn_on(self._feature_gates)
        groups.are_known = not self._informers.get_status(kinds.POD_GROUPS).stale
        if self._groups_revision != store.revision:
            self._groups_revision = store.revision
            namespaces = store.list_namespaces()
            groups.replace_all(record.content for name in namespaces for record in store.list_records(name))


def _find_reason(status: InformerStatus) -> kinds.UnknownReason:
    is_forbidden = status.revision is None and ApiErrorReason.FORBIDDEN in status.restarts
    return kinds.UnknownReason.FORBIDDEN if is_forbidden else kinds.UnknownReason.STALE
