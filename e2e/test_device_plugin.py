"""The device plugin with the kubelet's own manager of device plugins: registration, lists, allocations and restarts.

The manager is the code of the kubelet, over a socket in a folder of the case; no cluster is needed. The names of the
devices stay the same through each restart, by which the kubelet remembers allocations.
"""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from e2e.device_manager.running import DEVICE_MANAGER, DeviceManager, run_device_manager
from e2e.errors import BuildError, ClusterError
from e2e.local.ports import free_ports
from e2e.ports import NotHereError
from e2e.waiting import until

_DONGLE, _SEAT = "example.com/dongle", "example.com/seat"
_WITHIN = 60.0
_CONFIG = {
    "apiVersion": "tallygate.dev/v1alpha1",
    "kind": "DevicePluginConfig",
    "resources": [
        {
            "name": _DONGLE,
            "devices": [{"path": "/dev/dongle[0-1]", "numa": 0}, {"path": "/dev/dongle[2-9]", "numa": 1}],
            "container": {
                "path": "/dev/dongle{index}",
                "permissions": "r",
                "mounts": [{"hostPath": "/opt/{id}", "path": "/opt/dongle{index}"}],
                "env": {"DONGLES": "{paths}"},
                "annotations": {"example.com/dongles": "{ids}"},
                "cdiDevices": ["example.com/dongle={id}"],
            },
            "health": {"file": "/run/{id}.ok", "interval": "100ms", "failures": 2},
        },
        {"name": _SEAT, "devices": [{"id": "desk"}], "replicas": 3},
    ],
}


@dataclass(frozen=True)
class _Node:
    """A node: its files, the folder of sockets, and the log of its plugins."""

    root: Path

    @property
    def sockets(self) -> Path:
        return self.root / "sockets"

    @property
    def log(self) -> Path:
        return self.root / "plugin.log"

    def plug(self, number: int) -> None:
        (self.root / "dev" / f"dongle{number}").symlink_to("/dev/null")

    def unplug(self, number: int) -> None:
        (self.root / "dev" / f"dongle{number}").unlink()

    def break_device(self, number: int) -> None:
        (self.root / "run" / f"dongle{number}.ok").unlink()

    def mend_device(self, number: int) -> None:
        (self.root / "run" / f"dongle{number}.ok").touch()

    def start_plugin(self, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tallygate.cli", "device-plugin", f"--config={self.root}/devices.json"]
        folders = [f"--kubelet-folder={self.sockets}", f"--host-root={self.root}"]
        with self.log.open("ab") as log:
            return subprocess.Popen([*command, *folders, *arguments], stderr=log)  # noqa: S603  a program of ours

    @contextmanager
    def run_plugin(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a plugin, and end it, if the case has not."""
        plugin = self.start_plugin(*arguments)
        try:
            yield plugin
        finally:
            plugin.kill()
            plugin.wait()

    def until_amounts(self, kubelet: DeviceManager, resource: str, amounts: tuple[int, int]) -> None:
        """Wait until the kubelet reports this capacity and this allocatable amount."""
        until(
            f"{resource} is {amounts}",
            lambda: kubelet.find_amounts(resource) == amounts,
            _WITHIN,
            lambda: f"{kubelet.find_amounts(resource)}\n{self.log.read_text('utf-8')}",
        )


@pytest.fixture
def node() -> Iterator[_Node]:
    """Yield a node with four dongles, two in each NUMA node, under a short path for its sockets."""
    try:
        DEVICE_MANAGER.program()
    except BuildError as error:
        raise NotHereError(str(error)) from error
    with TemporaryDirectory(prefix="dp", dir="/tmp") as folder:
        node = _Node(Path(folder))
        for name in ("dev", "run", "sockets"):
            (node.root / name).mkdir()
        (node.root / "devices.json").write_text(json.dumps(_CONFIG), "utf-8")
        for number in range(4):
            node.plug(number)
            node.mend_device(number)
        yield node


@pytest.fixture
def kubelet(node: _Node) -> Iterator[DeviceManager]:
    """Yield the kubelet's manager of the node."""
    with run_device_manager(node.sockets) as running:
        yield running


def test_a_pod_gets_its_device_nodes_mounts_environment_annotations_and_cdi_names(
    node: _Node, kubelet: DeviceManager
) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        given = kubelet.allocate("trainer", {_DONGLE: 1})
        (device,) = given["devices"][_DONGLE]
        options = given["options"]
        assert options["Devices"] == [
            {"PathOnHost": f"/dev/{device}", "PathInContainer": "/dev/dongle0", "Permissions": "r"}
        ]
        assert [(each["HostPath"], each["ContainerPath"], each["ReadOnly"]) for each in options["Mounts"]] == [
            (f"/opt/{device}", "/opt/dongle0", True)
        ]
        assert options["Envs"] == [{"Name": "DONGLES", "Value": f"/dev/{device}"}]
        assert options["Annotations"] == [{"Name": "example.com/dongles", "Value": device}]
        assert options["CDIDevices"] == [{"Name": f"example.com/dongle={device}"}]


def test_two_pods_of_three_of_four_devices_are_one_too_many(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        kubelet.allocate("first", {_DONGLE: 3})
        with pytest.raises(ClusterError) as refused:
            kubelet.allocate("second", {_DONGLE: 3})
        assert str(refused.value) == (
            "requested number of devices unavailable for example.com/dongle. Requested: 3, Available: 1"
        )
        kubelet.remove("first")
        assert len(kubelet.allocate("second", {_DONGLE: 3})["devices"][_DONGLE]) == 3


def test_the_devices_of_a_container_are_of_one_numa_node(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        kubelet.allocate("single", {_DONGLE: 1})
        pair = kubelet.allocate("pair", {_DONGLE: 2})["devices"][_DONGLE]
        assert pair == ["dongle2", "dongle3"]


def test_a_broken_device_leaves_the_allocatable_amount_and_returns(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        (device,) = kubelet.allocate("trainer", {_DONGLE: 1})["devices"][_DONGLE]
        number = int(device.removeprefix("dongle"))
        node.break_device(number)
        node.until_amounts(kubelet, _DONGLE, (4, 3))
        assert kubelet.find_status("trainer")["health"] == {device: "Unhealthy"}
        node.mend_device(number)
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        assert kubelet.find_status("trainer")["health"] == {device: "Healthy"}


def test_a_device_that_is_unplugged_is_unhealthy_and_a_new_one_is_added(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        node.unplug(1)
        node.until_amounts(kubelet, _DONGLE, (4, 3))
        node.mend_device(5)
        node.plug(5)
        node.until_amounts(kubelet, _DONGLE, (5, 4))
        node.plug(1)
        node.until_amounts(kubelet, _DONGLE, (5, 5))


def test_a_shared_device_is_given_to_as_many_containers_as_it_has_replicas(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin():
        node.until_amounts(kubelet, _SEAT, (3, 3))
        given = [kubelet.allocate(f"pod-{number}", {_SEAT: 1})["devices"][_SEAT] for number in range(3)]
        assert sorted(given) == [["desk::0"], ["desk::1"], ["desk::2"]]
        with pytest.raises(ClusterError, match=r"Requested: 1, Available: 0"):
            kubelet.allocate("pod-3", {_SEAT: 1})


def test_a_kubelet_that_restarts_gets_the_plugin_and_remembers_the_devices_of_a_pod(node: _Node) -> None:
    with node.run_plugin():
        with run_device_manager(node.sockets) as kubelet:
            node.until_amounts(kubelet, _DONGLE, (4, 4))
            before = kubelet.allocate("trainer", {_DONGLE: 3})["devices"]
        with run_device_manager(node.sockets) as kubelet:
            assert kubelet.remember("trainer", {_DONGLE: 3})["devices"] == before
            node.until_amounts(kubelet, _DONGLE, (4, 4))
            node.until_amounts(kubelet, _SEAT, (3, 3))
            with pytest.raises(ClusterError, match=r"Requested: 2, Available: 1"):
                kubelet.allocate("second", {_DONGLE: 2})


def test_a_plugin_that_is_killed_and_starts_again_has_the_same_devices(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin() as plugin:
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        before = kubelet.allocate("trainer", {_DONGLE: 3})["devices"]
        plugin.kill()
        node.until_amounts(kubelet, _DONGLE, (4, 0))
        with pytest.raises(ClusterError, match="no healthy devices present"):
            kubelet.allocate("second", {_DONGLE: 1})
    with node.run_plugin():
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        assert kubelet.find_status("trainer")["devices"] == before
        with pytest.raises(ClusterError, match=r"Requested: 2, Available: 1"):
            kubelet.allocate("second", {_DONGLE: 2})


def test_at_sigterm_the_plugin_removes_its_sockets_and_ends_with_code_0(node: _Node, kubelet: DeviceManager) -> None:
    with node.run_plugin() as plugin:
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        plugin.send_signal(signal.SIGTERM)
        assert plugin.wait(_WITHIN) == 0
        assert [each.name for each in node.sockets.glob("*.sock")] == ["kubelet.sock"]
        node.until_amounts(kubelet, _DONGLE, (4, 0))


def test_a_second_plugin_takes_over_when_the_first_ends(node: _Node, kubelet: DeviceManager) -> None:
    """Overlap two plugins, as a rolling update does whose new pod starts before the old one has ended."""
    with node.run_plugin() as first:
        node.until_amounts(kubelet, _DONGLE, (4, 4))
        with node.run_plugin():
            waits = '"resource":"example.com/dongle","message":"another process serves'
            until("the second waits", lambda: waits in node.log.read_text("utf-8"), _WITHIN)
            assert kubelet.find_amounts(_DONGLE) == (4, 4)
            first.terminate()
            assert first.wait(_WITHIN) == 0
            node.until_amounts(kubelet, _DONGLE, (4, 4))


def test_a_plugin_that_starts_before_the_kubelet_waits_for_it(node: _Node) -> None:
    with node.run_plugin("--monitor=127.0.0.1:0"):
        until("the sockets are there", lambda: len([*node.sockets.glob("*.sock")]) == 2, _WITHIN)
        with run_device_manager(node.sockets) as kubelet:
            node.until_amounts(kubelet, _DONGLE, (4, 4))


def test_metrics_count_devices_allocations_and_registrations(node: _Node, kubelet: DeviceManager) -> None:
    node.break_device(3)
    (port,) = free_ports(1)
    with node.run_plugin(f"--monitor=127.0.0.1:{port}"):
        node.until_amounts(kubelet, _DONGLE, (4, 3))
        kubelet.allocate("trainer", {_DONGLE: 1})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            metrics = response.read().decode()
    for line in (
        'tallygate_device_plugin_devices{health="healthy",resource="example.com/dongle"} 3.0',
        'tallygate_device_plugin_devices{health="unhealthy",resource="example.com/dongle"} 1.0',
        'tallygate_device_plugin_allocations_total{resource="example.com/dongle",result="allocated"} 1.0',
        'tallygate_device_plugin_registrations_total{resource="example.com/dongle",result="registered"} 1.0',
        'tallygate_device_plugin_streams{resource="example.com/dongle"} 1.0',
    ):
        assert line in metrics
