"""The monitor port of a device plugin: the kubelet's probe is answered whatever else comes to it."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from e2e.local.ports import free_ports
from tests.server.process import ROOT, eventually
from tests.warm import Program

_IDLE = 600  # more than the limit of the port


@pytest.fixture
def url() -> Iterator[str]:
    """Yield the URL of the monitor port of a plugin that runs."""
    (port,) = free_ports(1)
    with TemporaryDirectory(prefix="dp") as name:
        folder = Path(name)
        (folder / "devices.json").write_text(
            json.dumps(
                {
                    "apiVersion": "tallygate.dev/v1alpha1",
                    "kind": "DevicePluginConfig",
                    "resources": [{"name": "example.com/dongle", "devices": [{"id": "one"}]}],
                }
            )
        )
        arguments = [
            "device-plugin",
            f"--config={folder}/devices.json",
            f"--host-root={folder}",
            f"--kubelet-folder={folder}",
            f"--monitor=127.0.0.1:{port}",
        ]
        with (folder / "log").open("wb") as log:
            process = Program("tallygate.cli", arguments, cwd=ROOT, stderr=log.fileno())
        try:
            assert eventually(lambda: is_alive(f"http://127.0.0.1:{port}")), (folder / "log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(60)


def is_alive(url: str) -> bool:
    """Return whether the probe of the DaemonSet passes."""
    try:
        return httpx.get(f"{url}/healthz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def test_probes_and_metrics_are_answered_beside_more_idle_connections_than_the_limit(url: str) -> None:
    address = ("127.0.0.1", httpx.URL(url).port or 0)
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(_IDLE)]
        assert is_alive(url)
        metrics = httpx.get(f"{url}/metrics", timeout=60).text
        assert 'tallygate_device_plugin_streams{resource="example.com/dongle"} 0.0' in metrics
        assert connections[0].recv(1) == b""  # the oldest one is closed for another
