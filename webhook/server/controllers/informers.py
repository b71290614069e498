"""The informers and listers of a server, built from its settings."""

import time

from webhook.gate.usage_lister import UsageLister
from webhook.kube.client import PooledTransport
from webhook.kube.config import ClientConfig, load_in_cluster_config, load_kubeconfig
from webhook.kube.informer import Informer, InformerStatus
from webhook.server.controllers.listers import InformerQuotaLister, InformerSnapshotProvider
from webhook.server.interfaces import ReadinessStatus
from webhook.server.settings.table import Settings
from webhook.server.telemetry.json_log import Logger
from webhook.state.informers.cluster_informers import ClusterInformers, LiveReader
from webhook.state.informers.named_stores import DEVICE_CLASS_CODEC

_CAP_RESOURCES = ("namespaces", "pods")


def load_client_config(settings: Settings) -> ClientConfig:
    """Return the client configuration for the API server that the settings name.

    Raises:
        ConnectError: if the address of the API server is unknown.
    """
    if settings.cluster == "in-cluster":
        return load_in_cluster_config()
    return load_kubeconfig(settings.kubeconfig, settings.context or None)


class GateInformers:
    """The informers of one cluster. `usage_lister` lists the usage of caps, `live_reader` reads single pods."""

    def __init__(self, client_config: ClientConfig, log: Logger) -> None:
        self._informers = ClusterInformers(client_config)
        self.quotas = InformerQuotaLister(client_config, log)
        device_store = self._informers.scheduler_cache.device_class_store
        self._device_informer = Informer(DEVICE_CLASS_CODEC, client_config, device_store.apply, device_store.__len__)
        self.snapshot_provider = InformerSnapshotProvider(
            self._informers.scheduler_cache,
            lambda: (*self._informers.list_statuses(), self._device_informer.get_status()),
            log,
        )
        self._transport = PooledTransport(client_config)
        self.namespace_store = self._informers.namespaces
        self.pod_store = self._informers.pods
        self.live_reader = LiveReader(self._transport)
        self.usage_lister = UsageLister(
            self.pod_store, self.namespace_store, time.monotonic, self._get_synced_at, self._informers.request_progress
        )

    def start(self) -> None:
        """Start all watches."""
        self._informers.start()
        self.quotas.start()
        self._device_informer.start()

    def stop(self) -> None:
        """Stop all watches, within about a second."""
        self._transport.close()
        self._informers.stop()
        self.quotas.stop()
        self._device_informer.stop()

    def list_statuses(self) -> tuple[InformerStatus, ...]:
        """Return the status of the watch of each resource."""
        return (*self._informers.list_statuses(), self.quotas.get_status(), self._device_informer.get_status())

    def check(self) -> ReadinessStatus:
        """Return a status that is ready once pods and namespaces were listed.

        Stale stores stay ready, and the detail reports them: a gate with stale stores is better than no gate.
        """
        statuses = self.list_statuses()
        is_ready = all(each.revision is not None for each in statuses if each.name in _CAP_RESOURCES)
        return ReadinessStatus("watches", is_ready, {each.name: _format_status(each) for each in statuses})

    def _get_synced_at(self) -> float | None:
        """Return the monotonic time at which pods and namespaces were both last known to be current.

        Return None while the age of either is unknown. Ages go on while the machine sleeps, this clock may not: then
        the returned time is too early, which is safe.
        """
        ages = [each.age for each in self.list_statuses() if each.name in _CAP_RESOURCES]
        known_ages = [age for age in ages if age is not None]
        return time.monotonic() - max(known_ages) if len(known_ages) == len(ages) else None


def _format_status(status: InformerStatus) -> dict[str, object]:
    detail: dict[str, object] = {"objects": status.objects, "revision": status.revision}
    if status.age is not None:
        detail["ageSeconds"] = round(status.age, 1)
    failures = {"stale": status.stale, "crash": status.crash}
    return detail | {name: text for name, text in failures.items() if text}
