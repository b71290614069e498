"""The server of one resource: the kubelet's client calls it over a socket in the folder of device plugins."""

import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from tallygate.device_plugin import plugin_messages
from tallygate.device_plugin.container_allocation import DeviceRefusedError, allocate_devices
from tallygate.device_plugin.device_config import DeviceResource
from tallygate.device_plugin.device_inventory import OfferedDevice
from tallygate.device_plugin.device_metrics import DeviceTelemetry
from tallygate.device_plugin.preferred_devices import choose_devices
from tallygate.errors import TallygateError

_MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""A request with all devices of a resource has less than 1 MiB."""

MAX_STREAMS: Final = 4
"""A kubelet has one stream of lists, and another for a moment when it registers the plugin again."""

_THREADS: Final = MAX_STREAMS + 4
_MAX_CALLS: Final = 16
_STOP_SECONDS: Final = 1.0
_NAME_LENGTH: Final = 40
_NOT_IN_NAME = re.compile(r"[^-a-z0-9.]+")


class SocketError(TallygateError):
    """The socket of a resource cannot be made."""


def name_socket(resource_name: str) -> str:
    """Return the file name of a resource's socket: short, since the path of a socket has at most 107 bytes."""
    readable = _NOT_IN_NAME.sub("-", resource_name.lower())[:_NAME_LENGTH].strip("-.")
    digest = hashlib.sha256(resource_name.encode()).hexdigest()[:8]
    return f"tallygate-{readable}-{digest}.sock"


class ResourceServer:
    """The gRPC server of one resource. One thread starts, publishes and stops; gRPC's threads answer."""

    def __init__(self, resource: DeviceResource, folder: Path, telemetry: DeviceTelemetry) -> None:
        self._resource = resource
        self._telemetry = telemetry
        self.socket = folder / name_socket(resource.name)
        self._lock_file = folder / f".{self.socket.name}.lock"
        self._changed = threading.Condition()
        self._offered: Mapping[str, OfferedDevice] = {}
        self._version = 0
        self._streams = 0
        self._stopping = threading.Event()
        self._server: grpc.Server | None = None
        self._lock_descriptor: int | None = None
        self._inode = 0
        telemetry.metrics.follow_streams(resource.name, lambda: self.streams)

    @property
    def resource_name(self) -> str:
        """The name that pods request."""
        return self._resource.name

    @property
    def streams(self) -> int:
        with self._changed:
            return self._streams

    @property
    def is_serving(self) -> bool:
        """Whether the server runs and its socket is the one in the folder; a kubelet that starts deletes it."""
        with suppress(OSError):
            return self._server is not None and self.socket.stat().st_ino == self._inode
        return False

    def publish(self, offered: Sequence[OfferedDevice]) -> None:
        """Send this list to the kubelet, and use it for all later answers."""
        with self._changed:
            self._offered = {device.offered_id: device for device in offered}
            self._version += 1
            self._changed.notify_all()

    def start(self) -> None:
        """Serve over a new socket; an earlier server is stopped first.

        Raises:
            SocketError: if another process serves this resource, or the folder cannot be written.
        """
        self.stop()
        try:
            self._take_lock()
            self.socket.unlink(missing_ok=True)
            server = grpc.server(
                ThreadPoolExecutor(_THREADS, thread_name_prefix=self.socket.name),
                handlers=[self._create_handler()],
                options=[
                    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
                ],
                maximum_concurrent_rpcs=_MAX_CALLS,
            )
            server.add_insecure_port(f"unix:{self.socket}")
            self._inode = self.socket.stat().st_ino
        except (OSError, RuntimeError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise SocketError(f"the socket {self.socket} cannot be made: {reason}") from error
        self._stopping = threading.Event()
        server.start()
        self._server = server

    def stop(self) -> None:
        """End all streams, stop the server, and remove the socket; the lock stays until the process ends."""
        server, self._server = self._server, None
        if server is None:
            return
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        server.stop(_STOP_SECONDS).wait(2 * _STOP_SECONDS)
        with suppress(OSError):
            if self.socket.stat().st_ino == self._inode:
                self.socket.unlink()

    def _take_lock(self) -> None:
        """Lock this resource for this process, so that two plugins never take the socket from each other.

        The name of the file begins with a dot: the kubelet counts the others in this folder as its own state.
        """
        if self._lock_descriptor is not None:
            return
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise SocketError(
                f"another process serves {self._resource.name} here; this one waits for its end"
            ) from error
        self._lock_descriptor = descriptor

    def _create_handler(self) -> grpc.GenericRpcHandler:
        def unary(answer: Callable[[Any, grpc.ServicerContext], Any], request: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                answer, partial(plugin_messages.decode_message, request), plugin_messages.encode_message
            )

        return grpc.method_handlers_generic_handler(
            plugin_messages.PLUGIN_SERVICE,
            {
                "GetDevicePluginOptions": unary(self._get_options, "Empty"),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch,
                    partial(plugin_messages.decode_message, "Empty"),
                    plugin_messages.encode_message,
                ),
                "GetPreferredAllocation": unary(self._prefer, "PreferredAllocationRequest"),
                "Allocate": unary(self._allocate, "AllocateRequest"),
                "PreStartContainer": unary(self._pre_start, "PreStartContainerRequest"),
            },
        )

    def _get_options(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        return plugin_messages.create_message("DevicePluginOptions", get_preferred_allocation_available=True)

    def _pre_start(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        return plugin_messages.create_message("PreStartContainerResponse")

    def _list_and_watch(self, _request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield the whole list now, and again after each change."""
        stopping = self._stopping
        with self._changed:
            if self._streams >= MAX_STREAMS:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams of lists are open already")
            self._streams += 1
        try:
            context.add_callback(self._wake_streams)
            sent = -1
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda last=sent: self._version != last or stopping.is_set() or not context.is_active()  # type: ignore[misc]
                    )
                    if stopping.is_set() or not context.is_active():
                        return
                    sent, offered = self._version, tuple(self._offered.values())
                yield plugin_messages.create_device_list(offered)
        finally:
            with self._changed:
                self._streams -= 1

    def _wake_streams(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _prefer(self, request: Any, _context: grpc.ServicerContext) -> Any:
        offered = self._get_offered()
        return plugin_messages.create_message(
            "PreferredAllocationResponse",
            container_responses=[
                plugin_messages.create_message(
                    "ContainerPreferredAllocationResponse",
                    deviceIDs=choose_devices(
                        offered,
                        container_request.available_deviceIDs,
                        container_request.must_include_deviceIDs,
                        container_request.allocation_size,
                    ),
                )
                for container_request in request.container_requests
            ],
        )

    def _allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        offered, answers = self._get_offered(), []
        for container_request in request.container_requests:
            try:
                allocation = allocate_devices(offered, container_request.devices_ids, self._resource.container)
            except DeviceRefusedError as error:
                self._telemetry.metrics.count_allocation(self._resource.name, is_allocated=False)
                self._telemetry.log.warning("device-not-allocated", resource=self._resource.name, message=str(error))
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            self._telemetry.metrics.count_allocation(self._resource.name, is_allocated=True)
            self._telemetry.log.info(
                "device-allocated", resource=self._resource.name, devices=sorted(container_request.devices_ids)
            )
            answers.append(plugin_messages.create_allocation(allocation))
        return plugin_messages.create_message("AllocateResponse", container_responses=answers)

    def _get_offered(self) -> Mapping[str, OfferedDevice]:
        with self._changed:
            return self._offered
