"""The registration of a resource with the kubelet, and again with each kubelet that starts.

A kubelet that starts deletes every socket in its folder and makes its own again. The plugin polls both sockets: a
registration counts only while the kubelet follows the list.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from tallygate.device_plugin.device_metrics import DeviceTelemetry
from tallygate.device_plugin.plugin_messages import API_VERSION, REGISTRATION_SERVICE, create_message, encode_message
from tallygate.device_plugin.resource_server import ResourceServer, SocketError
from tallygate.errors import TallygateError
from tallygate.server.telemetry.json_log import FailureLog

KUBELET_SOCKET: Final = "kubelet.sock"
FOLLOW_SECONDS: Final = 5.0
"""The time after which a kubelet that follows no list is asked again."""

_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 30.0
_CALL_SECONDS: Final = 15.0
"""The kubelet answers after it has connected to the plugin, for which it has 10 s."""

SocketIdentity = tuple[int, int, int]
"""Device, inode and time of change: an inode may be used again by the next socket."""


class Step(Enum):
    """The next step of a registration."""

    WAIT = "wait"
    SERVE = "serve"
    REGISTER = "register"


@dataclass(frozen=True, slots=True)
class KubeletState:
    """The kubelet's socket at the last registration, the time until which to wait, and the failures in succession."""

    registered_with: SocketIdentity | None = None
    wait_until: float = 0.0
    failures: int = 0


def choose_step(
    state: KubeletState, now: float, kubelet: SocketIdentity | None, *, is_serving: bool, is_followed: bool
) -> Step:
    """Return the next step. `kubelet` is its current socket, None without one.

    A missing socket of the plugin is made again even while there is no kubelet: a kubelet that starts expects none.
    """
    if now < state.wait_until:
        return Step.WAIT
    if not is_serving:
        return Step.SERVE
    if kubelet is None or (kubelet == state.registered_with and is_followed):
        return Step.WAIT
    return Step.REGISTER


def record_success(now: float, kubelet: SocketIdentity) -> KubeletState:
    """Return the state after a registration; the kubelet has some time to follow the list."""
    return KubeletState(kubelet, now + FOLLOW_SECONDS)


def record_failure(state: KubeletState, now: float) -> KubeletState:
    """Return the state after a failure; the delay doubles with each one."""
    delay = min(_FIRST_DELAY * 2.0 ** min(state.failures, 16), _MAX_DELAY)
    return KubeletState(None, now + delay, state.failures + 1)


class KubeletRefusedError(TallygateError):
    """The kubelet did not register the plugin."""


class KubeletRegistration:
    """The registration of one resource; one thread calls `step`."""

    def __init__(self, server: ResourceServer, telemetry: DeviceTelemetry, clock: Callable[[], float]) -> None:
        self._server = server
        self._kubelet_socket = server.socket.with_name(KUBELET_SOCKET)
        self._telemetry = telemetry
        self._clock = clock
        self._state = KubeletState()
        self._failures = FailureLog(
            partial(telemetry.log.warning, "device-plugin-not-registered", resource=server.resource_name)
        )

    def step(self) -> None:
        """Do what is due: serve again, or register; a failure is logged, and the step is repeated later."""
        kubelet = _identify(self._kubelet_socket)
        if kubelet != self._state.registered_with and self._state.registered_with is not None:
            self._state = replace(self._state, registered_with=None, wait_until=0.0)
        is_serving, is_followed = self._server.is_serving, self._server.streams > 0
        step = choose_step(self._state, self._clock(), kubelet, is_serving=is_serving, is_followed=is_followed)
        try:
            if step is Step.SERVE:
                self._server.start()
                self._state = KubeletState()
            elif step is Step.REGISTER and kubelet is not None:
                self._register()
                self._state = record_success(self._clock(), kubelet)
                self._telemetry.log.info(
                    "device-plugin-registered", resource=self._server.resource_name, endpoint=self._server.socket.name
                )
            else:
                return
            self._failures.update("")
        except (SocketError, KubeletRefusedError) as error:
            self._state = record_failure(self._state, self._clock())
            self._failures.update(str(error))
        if step is Step.REGISTER:
            self._telemetry.metrics.count_registration(
                self._server.resource_name, is_registered=not self._failures.failure
            )

    def _register(self) -> None:
        request = create_message(
            "RegisterRequest",
            version=API_VERSION,
            endpoint=self._server.socket.name,
            resource_name=self._server.resource_name,
            options=create_message("DevicePluginOptions", get_preferred_allocation_available=True),
        )
        # Go's server refuses the path of a socket as an authority.
        options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self._kubelet_socket}", options=options) as channel:
            call = channel.unary_unary(f"/{REGISTRATION_SERVICE}/Register", encode_message, bytes)
            try:
                call(request, timeout=_CALL_SECONDS)
            except grpc.RpcError as error:
                raise KubeletRefusedError(
                    f"the kubelet does not register {self._server.resource_name}: {_describe(error)}"
                ) from error


def _describe(error: grpc.RpcError) -> str:
    """Return the details and the code of a failed call: gRPC's errors of calls have both, their type has neither."""
    details, code = getattr(error, "details", None), getattr(error, "code", None)
    return f"{details()} ({code().name})" if details and code else str(error)


def _identify(socket: Path) -> SocketIdentity | None:
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
