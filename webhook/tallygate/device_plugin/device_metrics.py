"""The metrics of a device plugin. Labels are the configured resources, and fixed words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, make_wsgi_app

from tallygate.device_plugin.device_inventory import OfferedDevice
from tallygate.server.telemetry.json_log import Logger


class DeviceMetrics:
    """The metrics of all resources of one plugin, in one registry."""

    def __init__(self, resource_names: Iterable[str]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # otherwise each counter has a second series
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        self._devices = Gauge(
            "tallygate_device_plugin_devices",
            "Devices in the list for the kubelet, replicas of shared ones included, by health.",
            ("resource", "health"),
            registry=self.registry,
        )
        self._allocations = counter(
            "tallygate_device_plugin_allocations",
            "Containers for which the kubelet asked for devices, by result.",
            ("resource", "result"),
        )
        self._registrations = counter(
            "tallygate_device_plugin_registrations",
            "Registrations with the kubelet, by result.",
            ("resource", "result"),
        )
        self._streams = Gauge(
            "tallygate_device_plugin_streams",
            "Open streams of lists: 1 while a kubelet follows the devices.",
            ("resource",),
            registry=self.registry,
        )
        for name in resource_names:
            self.set_devices(name, ())
            self._streams.labels(name)
            for result in ("allocated", "refused"):
                self._allocations.labels(name, result)
            for result in ("registered", "failed"):
                self._registrations.labels(name, result)

    def set_devices(self, resource: str, offered: Sequence[OfferedDevice]) -> None:
        """Store the numbers of healthy and unhealthy devices."""
        unhealthy = sum(bool(device.problem) for device in offered)
        self._devices.labels(resource, "healthy").set(len(offered) - unhealthy)
        self._devices.labels(resource, "unhealthy").set(unhealthy)

    def follow_streams(self, resource: str, count_streams: Callable[[], float]) -> None:
        """Call the function for the number of open streams whenever metrics are collected."""
        self._streams.labels(resource).set_function(count_streams)

    def count_allocation(self, resource: str, *, is_allocated: bool) -> None:
        self._allocations.labels(resource, "allocated" if is_allocated else "refused").inc()

    def count_registration(self, resource: str, *, is_registered: bool) -> None:
        self._registrations.labels(resource, "registered" if is_registered else "failed").inc()


@dataclass(frozen=True, slots=True)
class DeviceTelemetry:
    """The metrics and the log of one plugin."""

    metrics: DeviceMetrics
    log: Logger


def create_monitor_application(metrics: DeviceMetrics) -> WSGIApplication:
    """Return the application of the monitor port: `/healthz`, which is always 200, and metrics under all other paths.

    A plugin whose check of a device hangs is not restarted for it, so the liveness of the process is all that counts.
    """
    show_metrics = make_wsgi_app(metrics.registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            metrics_text: Iterable[bytes] = show_metrics(environ, start_response)
            return metrics_text
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"ok"]

    return answer
