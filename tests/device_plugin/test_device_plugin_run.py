"""One resource step by step, beside a registration service of our own: time is passed in, so that nothing waits.

`e2e/test_device_plugin.py` has the kubelet's own code in its place.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest

from tallygate.device_plugin.device_config import MAX_DEVICES, DeviceResource, DeviceSource, HealthCheck
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_metrics import DeviceMetrics, DeviceTelemetry
from tallygate.device_plugin.device_plugin_run import LOOK_SECONDS, PluginSettings, ResourceControl
from tallygate.device_plugin.kubelet_registration import FOLLOW_SECONDS
from tallygate.device_plugin.plugin_messages import (
    PLUGIN_SERVICE,
    REGISTRATION_SERVICE,
    create_message,
    decode_message,
    encode_message,
)
from tallygate.device_plugin.resource_server import name_socket
from tallygate.server.telemetry.json_log import LineWriter, create_logger

_NAME = "example.com/dongle"
_GLOB = DeviceResource(_NAME, (DeviceSource(path="/dev/d*"),))


class _Kubelet:
    """A registration service over `kubelet.sock`; it follows no list by itself."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[Any] = []
        self.refusal = ""
        handler = grpc.unary_unary_rpc_method_handler(
            self._register, lambda content: decode_message("RegisterRequest", content), encode_message
        )
        service = grpc.method_handlers_generic_handler(REGISTRATION_SERVICE, {"Register": handler})
        self._server = grpc.server(ThreadPoolExecutor(1), handlers=[service])
        self._server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait(20)

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        if self.refusal:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        return create_message("Empty")


class _Node:
    """A node with a clock, and one resource of its plugin."""

    def __init__(self, root: Path, resource: DeviceResource = _GLOB) -> None:
        self.root, self.now, self.log = root, 100.0, BytesIO()
        self.sockets = root / "s"
        for folder in (self.sockets, root / "dev", root / "run"):
            folder.mkdir()
        self._lines = LineWriter(self.log)
        telemetry = DeviceTelemetry(DeviceMetrics([_NAME]), create_logger("info", line_writer=self._lines))
        settings = PluginSettings(self.sockets, HostFiles(root))
        self.control = ResourceControl(resource, settings, telemetry, lambda: None, lambda: self.now)

    @property
    def socket(self) -> Path:
        return self.sockets / name_socket(_NAME)

    def plug(self, name: str) -> None:
        (self.root / "dev" / name).symlink_to("/dev/null")

    def read_log(self) -> str:
        self._lines.flush()
        return self.log.getvalue().decode()

    def read_list(self) -> dict[str, str]:
        """Return the health by ID in the first list of a stream."""
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            call = channel.unary_stream(f"/{PLUGIN_SERVICE}/ListAndWatch", bytes, bytes)(b"", timeout=20.0)
            message = decode_message("ListAndWatchResponse", next(call))
            call.cancel()
        return {each.ID: each.health for each in message.devices}


@pytest.fixture
def root() -> Iterator[Path]:
    """Yield a folder with a short path, since that of a socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="dp") as name:
        yield Path(name)


@pytest.fixture
def node(root: Path) -> Iterator[_Node]:
    """Yield a node without a kubelet."""
    node = _Node(root)
    yield node
    node.control.stop()


@pytest.fixture
def kubelet(node: _Node) -> Iterator[_Kubelet]:
    """Yield a registration service on the node."""
    kubelet = _Kubelet(node.sockets)
    yield kubelet
    kubelet.stop()


def _step(node: _Node, times: int = 2) -> None:
    """Step: first the socket is made, then the resource is registered."""
    for _ in range(times):
        node.control.step()


def test_a_resource_is_registered_with_its_socket_and_its_options(node: _Node, kubelet: _Kubelet) -> None:
    _step(node)
    (request,) = kubelet.requests
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", node.socket.name, _NAME)
    assert request.options.get_preferred_allocation_available
    assert not request.options.pre_start_required


def test_a_kubelet_that_does_not_follow_is_asked_again_and_not_before(node: _Node, kubelet: _Kubelet) -> None:
    _step(node)
    node.now += FOLLOW_SECONDS - 1
    _step(node)
    assert len(kubelet.requests) == 1
    node.now += 1
    _step(node)
    assert len(kubelet.requests) == 2


def test_a_refusal_is_logged_once_and_tried_again_with_a_growing_delay(node: _Node, kubelet: _Kubelet) -> None:
    kubelet.refusal = "the ResourceName is invalid"
    attempts = []
    for _ in range(16):
        before = len(kubelet.requests)
        _step(node)
        attempts.append(len(kubelet.requests) - before)
        node.now += 0.5
    assert attempts == [1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert node.read_log().count("the kubelet does not register example.com/dongle: the ResourceName is invalid") == 1


def test_a_new_socket_of_the_kubelet_is_registered_with_at_once(node: _Node, kubelet: _Kubelet) -> None:
    _step(node)
    kubelet.stop()
    (node.sockets / "kubelet.sock").unlink(missing_ok=True)
    second = _Kubelet(node.sockets)
    try:
        _step(node)
        assert len(second.requests) == 1
    finally:
        second.stop()


def test_a_deleted_socket_is_made_again_before_there_is_a_kubelet(node: _Node) -> None:
    _step(node)
    node.socket.unlink()
    _step(node)
    assert node.read_list() == {}


def test_devices_are_looked_for_periodically_and_after_a_change(node: _Node) -> None:
    node.plug("d0")
    _step(node)
    assert node.read_list() == {"d0": "Healthy"}
    node.plug("d1")
    _step(node)
    assert node.read_list() == {"d0": "Healthy"}
    node.now += LOOK_SECONDS
    _step(node)
    assert node.read_list() == {"d0": "Healthy", "d1": "Healthy"}
    node.plug("d2")
    node.control.step(look=True)
    assert set(node.read_list()) == {"d0", "d1", "d2"}


def test_the_first_list_has_the_results_of_the_first_checks(root: Path) -> None:
    node = _Node(root, DeviceResource(_NAME, _GLOB.sources, health=HealthCheck(file="/run/{id}", failures=1)))
    for name in ("d0", "d1"):
        node.plug(name)
    (root / "run" / "d0").touch()
    try:
        wait(node.control.prepare())
        _step(node)
        assert node.read_list() == {"d0": "Healthy", "d1": "Unhealthy"}
        assert '"device":"d1","state":"unhealthy","reason":"/run/d1 does not exist"' in node.read_log()
    finally:
        node.control.stop()


def test_devices_that_the_list_has_no_room_for_are_logged(root: Path) -> None:
    names = [f"seat-{number}" for number in range(MAX_DEVICES // 1000 + 2)]
    node = _Node(root, DeviceResource(_NAME, tuple(map(DeviceSource, names)), replicas=1000))
    try:
        _step(node)
        assert len(node.read_list()) == MAX_DEVICES
        assert f"2 devices are left out: the list has room for {MAX_DEVICES}" in node.read_log()
    finally:
        node.control.stop()


def test_the_stop_removes_the_socket_and_leaves_that_of_the_kubelet(node: _Node, kubelet: _Kubelet) -> None:
    _step(node)
    assert kubelet.requests
    node.control.stop()
    assert [each.name for each in node.sockets.glob("*.sock")] == ["kubelet.sock"]
