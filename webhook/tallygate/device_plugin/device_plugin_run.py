"""The run of a device plugin: it looks for devices, checks them, publishes the list, and registers with the kubelet."""

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from watchfiles import watch

from tallygate.device_plugin import device_inventory
from tallygate.device_plugin.device_config import MAX_DEVICES, DeviceResource
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_metrics import DeviceMetrics, DeviceTelemetry, create_monitor_application
from tallygate.device_plugin.health_probes import HealthProbes
from tallygate.device_plugin.health_transitions import HealthResult
from tallygate.device_plugin.kubelet_registration import KubeletRegistration
from tallygate.device_plugin.resource_server import ResourceServer
from tallygate.errors import TallygateError
from tallygate.server.monitor_server import start_monitor
from tallygate.server.settings.value_types import Address
from tallygate.server.telemetry.json_log import FailureLog, Logger

LOOK_SECONDS: Final = 5.0
"""The time between two searches for devices without a notification of a change."""

_TICK_SECONDS: Final = 0.5
_FIRST_CHECKS_SECONDS: Final = 5.0
_WATCH_MILLISECONDS: Final = 10_000
_PARALLEL_CHECKS: Final = 8
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_NEVER: Final = float("inf")


class DevicePluginError(TallygateError):
    """The device plugin cannot start."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The folder of the kubelet's sockets, the host's files, and the address of the metrics, None without them."""

    folder: Path
    host: HostFiles
    monitor: Address | None = None


class ResourceControl:
    """One resource: its inventory, checks, server and registration. One thread calls it.

    `wake` is called from other threads when a check has ended.
    """

    def __init__(
        self,
        resource: DeviceResource,
        settings: PluginSettings,
        telemetry: DeviceTelemetry,
        wake: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resource = resource
        self._host = settings.host
        self._telemetry = telemetry
        self._wake = wake
        self._clock = clock
        self._probes = HealthProbes(settings.host)
        self._executor = ThreadPoolExecutor(_PARALLEL_CHECKS, thread_name_prefix="health")
        self._results: queue.SimpleQueue[tuple[str, HealthResult]] = queue.SimpleQueue()
        self._due: dict[str, float] = {}
        self._inventory: device_inventory.Inventory = {}
        self._offered: tuple[device_inventory.OfferedDevice, ...] | None = None
        self._look_at = 0.0
        self._overflow = FailureLog(partial(telemetry.log.warning, "devices-left-out", resource=resource.name))
        self._server = ResourceServer(resource, settings.folder, telemetry)
        self._registration = KubeletRegistration(self._server, telemetry, clock)

    def prepare(self) -> list[Future[None]]:
        """Look for the devices, and start their first checks, so that the first list of the kubelet can have them."""
        self._look()
        return self._start_checks()

    def step(self, *, look: bool = False) -> None:
        """Do all that is due; `look` if a folder of devices has changed."""
        if look or self._clock() >= self._look_at:
            self._look()
        self._take_results()
        self._start_checks()
        offered = device_inventory.list_offered(self._inventory, self._resource)
        if offered != self._offered:
            self._log_changes(offered)
            self._offered = offered
            self._telemetry.metrics.set_devices(self._resource.name, offered)
            self._server.publish(offered)
        self._registration.step()

    def stop(self) -> None:
        """End the checks, and stop the server."""
        self._probes.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._server.stop()

    def _look(self) -> None:
        now = self._clock()
        self._look_at = now + LOOK_SECONDS
        found = self._host.find_devices(self._resource)
        left_out = len(found) - MAX_DEVICES // self._resource.replicas
        self._overflow.update(f"{left_out} devices are left out: the list has room for {MAX_DEVICES}" * (left_out > 0))
        self._inventory = device_inventory.observe_devices(self._inventory, found, self._resource, now)

    def _start_checks(self) -> list[Future[None]]:
        """Start the checks that are due: one at a time for each device, none without its file."""
        if self._resource.health is None:
            return []
        now = self._clock()
        due = [
            tracked.found
            for device_id, tracked in self._inventory.items()
            if not tracked.found.problem and self._due.get(device_id, 0.0) <= now
        ]
        self._due.update((device.device_id, _NEVER) for device in due)
        return [self._executor.submit(self._check, device) for device in due]

    def _check(self, device: device_inventory.FoundDevice) -> None:
        health = self._resource.health
        if health is None:
            return
        try:
            result = self._probes.check(device, health)
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave a device unchecked for good
            result = HealthResult(f"{type(crash).__name__}: {crash}")
        self._results.put((device.device_id, result))
        self._wake()

    def _take_results(self) -> None:
        while self._resource.health is not None and not self._results.empty():
            device_id, result = self._results.get()
            self._inventory = device_inventory.record_check(self._inventory, device_id, result, self._resource)
            self._due[device_id] = self._clock() + self._resource.health.interval

    def _log_changes(self, offered: Sequence[device_inventory.OfferedDevice]) -> None:
        before = {device.device.device_id: device.problem for device in self._offered or ()}
        after = {device.device.device_id: device.problem for device in offered}
        for device_id in sorted(before.keys() | after.keys()):
            old, new = before.get(device_id), after.get(device_id)
            if bool(old) != bool(new) or (old is None) != (new is None):
                state = "removed" if new is None else "unhealthy" if new else "healthy"
                log = self._telemetry.log.warning if new else self._telemetry.log.info
                reason = {"reason": new} if new else {}
                log("device-changed", resource=self._resource.name, device=device_id, state=state, **reason)


def run_device_plugin(resources: Sequence[DeviceResource], settings: PluginSettings, log: Logger) -> None:
    """Serve all resources until SIGTERM or SIGINT. Call it in the main thread, where signals arrive.

    Raises:
        DevicePluginError: if the folder of sockets is missing, or the address of the metrics is in use.
    """
    if not settings.folder.is_dir():
        raise DevicePluginError(
            f"{settings.folder} is not a folder here; mount the kubelet's folder of device plugins there, or name it "
            "by --kubelet-folder"
        )
    telemetry = DeviceTelemetry(DeviceMetrics(resource.name for resource in resources), log)
    stop, wake, changed = threading.Event(), threading.Event(), threading.Event()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: stop.set())
    _start_monitor(settings.monitor, telemetry.metrics)
    controls = [ResourceControl(resource, settings, telemetry, wake.set) for resource in resources]

    def report_change() -> None:
        changed.set()
        wake.set()

    def list_folders() -> list[Path]:
        return [settings.folder, *settings.host.list_folders(resources)]

    threading.Thread(target=_watch_folders, args=(list_folders, report_change, stop), name="watch", daemon=True).start()
    log.info("device-plugin-serving", resources=[resource.name for resource in resources], folder=str(settings.folder))
    try:
        wait([check for control in controls for check in control.prepare()], timeout=_FIRST_CHECKS_SECONDS)
        while not stop.is_set():
            wake.clear()
            look = changed.is_set()
            changed.clear()
            for control in controls:
                control.step(look=look)
            wake.wait(_TICK_SECONDS)  # a signal is noticed at the next tick
    finally:
        for control in controls:
            control.stop()
    log.info("device-plugin-stopped")


def _start_monitor(address: Address | None, metrics: DeviceMetrics) -> None:
    if address is None:
        return
    try:
        start_monitor(create_monitor_application(metrics), address)
    except OSError as error:
        raise DevicePluginError(f"cannot listen on {address}: {error.strerror or error}") from None


def _watch_folders(list_folders: Callable[[], list[Path]], report: Callable[[], None], stop: threading.Event) -> None:
    """Report changes in the folders until `stop` is set. A folder that appears or is made again is watched too."""
    while not stop.is_set():
        folders = _identify_folders(list_folders())
        for changes in _iterate_folder_changes(folders, stop):
            if changes:
                report()
            if _identify_folders(list_folders()) != folders:
                break


def _identify_folders(folders: Sequence[Path]) -> dict[Path, int]:
    inodes = {}
    for folder in folders:
        with suppress(OSError):
            inodes[folder] = folder.stat().st_ino
    return inodes


def _iterate_folder_changes(folders: Iterable[Path], stop: threading.Event) -> Iterator[object]:
    """Yield the changes in the folders, and nothing true now and then; the periodic search replaces a failed watch."""
    try:
        yield from watch(
            *folders,
            watch_filter=None,
            stop_event=stop,
            recursive=False,
            rust_timeout=_WATCH_MILLISECONDS,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
    except (OSError, RuntimeError):  # a folder was removed, or the system has no more watches
        stop.wait(_WATCH_MILLISECONDS / 1000)
