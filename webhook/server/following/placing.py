"""Nodes and pods beside the gate, for rules that ask whether there is a node for a pod."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from webhook.gate import schedulability  # noqa: F401  here, before an API server waits for the first answer
from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.server.following.unplaced import UnsyncedLog, create_schedulability_log
from webhook.server.reporting.logs import Logger
from webhook.state.watch.devices import DEVICES
from webhook.state.watch.placing import ClusterView
from webhook.state.watch.runner import Followed

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
