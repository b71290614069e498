"""The server of a resource, called by a gRPC client of our own: hostile bytes, bounds, streams and the socket."""

import socket
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from prometheus_client import generate_latest

from tallygate.device_plugin.device_config import ContainerTemplate, DeviceResource
from tallygate.device_plugin.device_inventory import FoundDevice, OfferedDevice
from tallygate.device_plugin.device_metrics import DeviceMetrics, DeviceTelemetry
from tallygate.device_plugin.plugin_messages import PLUGIN_SERVICE, create_message, decode_message
from tallygate.device_plugin.resource_server import MAX_STREAMS, ResourceServer, SocketError, name_socket
from tallygate.server.telemetry.json_log import LineWriter, create_logger

_NAME = "example.com/dongle"
_RESOURCE = DeviceResource(_NAME, (), container=ContainerTemplate(env={"IDS": "{ids}"}))
_A = OfferedDevice("a", FoundDevice("a", "/dev/a", 1))
_SICK = OfferedDevice("b", FoundDevice("b", "/dev/b"), "no answer")
_TIMEOUT = 20.0


class _Plugin:
    """A server in a folder, with its telemetry, and a client of it."""

    def __init__(self, folder: Path) -> None:
        log = create_logger("info", line_writer=LineWriter(BytesIO()))
        self.telemetry = DeviceTelemetry(DeviceMetrics([_NAME]), log)
        self.server = ResourceServer(_RESOURCE, folder, self.telemetry)
        self.server.publish([_A, _SICK])
        self.server.start()
        self.channel = grpc.insecure_channel(f"unix:{self.server.socket}")

    def call(self, method: str, content: bytes) -> bytes:
        """Return the bytes of an answer."""
        call = self.channel.unary_unary(f"/{PLUGIN_SERVICE}/{method}", bytes, bytes)
        answer: bytes = call(content, timeout=_TIMEOUT)
        return answer

    def watch(self) -> Any:
        """Return a stream of lists."""
        decode: Callable[[bytes], Any] = lambda content: decode_message("ListAndWatchResponse", content)  # noqa: E731
        return self.channel.unary_stream(f"/{PLUGIN_SERVICE}/ListAndWatch", bytes, decode)(b"", timeout=_TIMEOUT)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short path, since that of a socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="dp") as name:
        yield Path(name)


@pytest.fixture
def plugin(folder: Path) -> Iterator[_Plugin]:
    """Yield a plugin with a healthy and an unhealthy device."""
    plugin = _Plugin(folder)
    yield plugin
    plugin.channel.close()
    plugin.server.stop()


def _list(message: Any) -> list[tuple[str, str, list[int]]]:
    return [(each.ID, each.health, [node.ID for node in each.topology.nodes]) for each in message.devices]


def test_a_stream_has_the_whole_list_after_each_change(plugin: _Plugin) -> None:
    stream = plugin.watch()
    assert _list(next(stream)) == [("a", "Healthy", [1]), ("b", "Unhealthy", [])]
    plugin.server.publish([_A])
    assert _list(next(stream)) == [("a", "Healthy", [1])]
    stream.cancel()


def test_the_stop_ends_a_stream_and_removes_the_socket(plugin: _Plugin) -> None:
    stream = plugin.watch()
    next(stream)
    plugin.server.stop()
    assert list(stream) == []
    assert not plugin.server.socket.exists()
    assert not plugin.server.is_serving


def test_streams_are_bounded_and_leave_room_for_other_calls(plugin: _Plugin) -> None:
    streams = [plugin.watch() for _ in range(MAX_STREAMS)]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as raised:
        next(plugin.watch())
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert plugin.call("GetDevicePluginOptions", b"") == b"\x10\x01"
    for stream in streams:
        stream.cancel()


def test_a_stream_that_ends_leaves_its_place_to_the_next_kubelet(plugin: _Plugin) -> None:
    deadline, opened = time.monotonic() + _TIMEOUT, 0
    while opened < 2 * MAX_STREAMS:
        stream = plugin.watch()
        try:
            next(stream)
        except grpc.RpcError as error:  # the server learns of an end after the client
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or time.monotonic() > deadline:
                raise
        else:
            opened += 1
            stream.cancel()


@pytest.mark.parametrize("method", ["Allocate", "GetPreferredAllocation", "PreStartContainer", "ListAndWatch"])
def test_hostile_bytes_are_refused_and_the_server_goes_on(plugin: _Plugin, method: str) -> None:
    with pytest.raises(grpc.RpcError):
        plugin.call(method, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
    assert plugin.call("PreStartContainer", b"") == b""


def test_an_oversized_message_is_refused(plugin: _Plugin) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        plugin.call("Allocate", b"\x0a" * (4 * 1024 * 1024 + 1))
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_huge_size_of_a_preferred_allocation_is_bounded_by_the_devices(plugin: _Plugin) -> None:
    request = create_message(
        "PreferredAllocationRequest",
        container_requests=[
            create_message(
                "ContainerPreferredAllocationRequest", available_deviceIDs=["a", "b", "c"], allocation_size=2**31 - 1
            )
        ],
    )
    answer = plugin.call("GetPreferredAllocation", request.SerializeToString())
    (container,) = decode_message("PreferredAllocationResponse", answer).container_responses
    assert list(container.deviceIDs) == ["a", "b"]


def test_an_allocation_is_answered_and_counted(plugin: _Plugin) -> None:
    answer = decode_message("AllocateResponse", plugin.call("Allocate", _ask(["a"])))
    (container,) = answer.container_responses
    assert dict(container.envs) == {"IDS": "a"}
    assert [(each.container_path, each.host_path, each.permissions) for each in container.devices] == [
        ("/dev/a", "/dev/a", "rw")
    ]
    metrics = generate_latest(plugin.telemetry.metrics.registry).decode()
    assert f'tallygate_device_plugin_allocations_total{{resource="{_NAME}",result="allocated"}} 1.0' in metrics


def test_an_unhealthy_device_is_refused_with_the_reason(plugin: _Plugin) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        plugin.call("Allocate", _ask(["b"]))
    assert raised.value.details() == "device b is unhealthy: no answer"
    metrics = generate_latest(plugin.telemetry.metrics.registry).decode()
    assert f'tallygate_device_plugin_allocations_total{{resource="{_NAME}",result="refused"}} 1.0' in metrics


def _ask(ids: list[str]) -> bytes:
    request = create_message(
        "AllocateRequest", container_requests=[create_message("ContainerAllocateRequest", devices_ids=ids)]
    )
    content: bytes = request.SerializeToString()
    return content


def test_a_deleted_socket_is_noticed_and_made_again(plugin: _Plugin) -> None:
    plugin.server.socket.unlink()
    before = plugin.server.is_serving
    plugin.server.start()
    assert (before, plugin.server.is_serving) == (False, True)


def test_a_socket_that_another_process_put_there_is_not_ours(plugin: _Plugin) -> None:
    plugin.server.socket.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(plugin.server.socket))
        assert not plugin.server.is_serving


def test_a_second_plugin_waits_for_the_end_of_the_first(plugin: _Plugin, folder: Path) -> None:
    second = ResourceServer(_RESOURCE, folder, plugin.telemetry)
    with pytest.raises(SocketError, match=r"another process serves example\.com/dongle here"):
        second.start()
    assert plugin.server.is_serving


def test_a_stale_socket_of_a_killed_plugin_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / name_socket(_NAME)))
    plugin = _Plugin(folder)
    assert plugin.call("PreStartContainer", b"") == b""
    plugin.channel.close()
    plugin.server.stop()


def test_the_files_beside_the_socket_are_hidden_from_the_kubelet(plugin: _Plugin, folder: Path) -> None:
    """Allow no other name: it would be a checkpoint to the kubelet, which then resets no capacities of a new node."""
    assert [each for each in folder.iterdir() if not each.name.startswith(".")] == [plugin.server.socket]


@pytest.mark.parametrize("name", ["a.b/c", f"{'d' * 240}.io/{'n' * 63}", "EXAMPLE.com/GPU_a.B"])
def test_the_path_of_a_socket_fits(name: str) -> None:
    assert len(f"/var/lib/kubelet/device-plugins/{name_socket(name)}") <= 107
    assert name_socket(name) != name_socket(f"{name}x")
