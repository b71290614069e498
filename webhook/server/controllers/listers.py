"""Namespaces that are known in a moment: whoever makes one and puts a pod into it at once is ahead of the watch.

ResourceQuotas beside the gate: what they will say to a workload is told when it is applied.

Nodes and pods beside the gate, for rules that ask whether there is a node for a pod.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Condition
from typing import Final

from webhook.gate import schedulability  # noqa: F401  here, before an API server waits for the first answer
from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.objects.core import ResourceQuota
from webhook.server.controllers.unsynced import UnsyncedLog, create_schedulability_log
from webhook.server.telemetry.json_log import Logger
from webhook.state.watch.devices import DEVICES
from webhook.state.watch.namespaces import NamespaceView
from webhook.state.watch.placing import ClusterView
from webhook.state.watch.pool import Access
from webhook.state.watch.quotas import QUOTAS, QuotaView
from webhook.state.watch.runner import Followed, Follower

_NAMESPACE_TIMEOUT_SECONDS: Final = 2.0  # a watch is some milliseconds behind, unless something is wrong


class WaitingNamespaceLister:
    """A `NamespaceLister` that waits a little for a namespace that it does not know.

    The API server asks about nothing in a namespace that is not there, so an unknown one is about to be told.
    """

    def __init__(self, store: NamespaceView, timeout: float = _NAMESPACE_TIMEOUT_SECONDS) -> None:
        self._store = store
        self._timeout = timeout
        self._changed = Condition()
        store.listen(self._notify)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when nobody tells of it in time."""
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
    """Follows the quotas of a cluster. While they are not known nobody is told of them, and the log says so."""

    def __init__(self, access: Access, log: Logger) -> None:
        self._store = QuotaView()
        self._log = log
        self._was_synced = True
        self._informer = Follower(QUOTAS, access, self._store.apply, self._store.__len__)
        self.start, self.stop = self._informer.start, self._informer.stop

    def get_status(self) -> Followed:
        """How it goes."""
        return self._informer.followed()

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """The quotas of a namespace; None while what is known of them is old, or was never listed."""
        stale = self._informer.followed().stale
        self._log_change(stale)
        return None if stale else self._store.list_quotas(namespace)

    def _log_change(self, stale: str | None) -> None:
        """Log that workloads are not told of quotas, once, and once that they are again."""
        is_synced = stale is None
        if is_synced == self._was_synced:
            return
        self._was_synced = is_synced
        if is_synced:
            self._log.info("quotas-known", message="workloads are told again what ResourceQuota will say to their pods")
        else:
            self._log.warning("quotas-not-known", message=f"workloads are not told of ResourceQuotas: {stale}")


_SNAPSHOT_TIMEOUT_SECONDS: Final = 0.2  # behind others that look at it; nobody's pod waits for longer


class InformerSnapshotProvider:
    """The cluster that is followed. While it is not known nothing is said of pods by it, and the log says so."""

    def __init__(
        self, scheduler_cache: ClusterView, list_statuses: Callable[[], Sequence[Followed]], log: Logger
    ) -> None:
        self._scheduler_cache = scheduler_cache
        self._list_statuses = list_statuses
        self._unsynced_logs = {pods: create_schedulability_log(log) for pods in (False, True)}
        self._devices_unsynced_log = UnsyncedLog(
            partial(log.warning, "device-classes-not-judged"),
            partial(log.info, "device-classes-judged"),
            "names that no node has are",
        )

    def is_available(self) -> bool:
        """As a rule; `seen` finds out."""
        return True

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """The cluster; None while it is old, was never listed, or is looked at by others for too long."""
        statuses = self._list_statuses()
        stale, age = _find_staleness(statuses, pods=pods)
        self._unsynced_logs[pods].update(stale)
        if stale:
            yield None
            return
        has_devices = self._has_devices(statuses)
        with self._scheduler_cache.held(_SNAPSHOT_TIMEOUT_SECONDS) as cluster:
            yield (
                ClusterSnapshot(cluster, age, self._scheduler_cache.has_pods, has_devices)
                if cluster is not None
                else None
            )

    def _has_devices(self, statuses: Sequence[Followed]) -> bool:
        """Whether device classes are known; that there are none is known too."""
        stale = next((each.stale or "" for each in statuses if each.name == DEVICES.name), "nobody tells of them")
        self._devices_unsynced_log.update(stale)
        return not stale


def _find_staleness(statuses: Sequence[Followed], *, pods: bool) -> tuple[str, float]:
    """Why nodes, and pods where they matter, are not known, if so; and of how many seconds ago they are."""
    resources = {"nodes", "pods"} if pods else {"nodes"}
    needed_statuses = [each for each in statuses if each.name in resources]
    age = max((each.age for each in needed_statuses if each.age is not None), default=0.0)
    return "; ".join(each.stale for each in needed_statuses if each.stale), age
