"""The command `tallygate device-plugin` without a kubelet: what --check prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root

_CONFIG = """\
apiVersion: tallygate.dev/v1alpha1
kind: DevicePluginConfig
resources:
- name: example.com/dongle
  devices: [{path: /dev/tty*}, {id: front, path: /dev/front, numa: 1}]
  health: {file: "/run/{id}.ok"}
- {name: example.com/seat, devices: [{id: seat}], replicas: 2}
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return the root of a host with two devices, of which one passes its check, beside a configuration."""
    for path in ("host/dev", "host/run"):
        (tmp_path / path).mkdir(parents=True)
    for name in ("tty0", "tty1"):
        (tmp_path / "host" / "dev" / name).symlink_to("/dev/null")
    (tmp_path / "host" / "run" / "tty0.ok").touch()
    (tmp_path / "devices.yaml").write_text(_CONFIG, "utf-8")
    return tmp_path / "host"


def _run(host: Path, *arguments: str) -> Result:
    config = host.with_name("devices.yaml")
    return CliRunner().invoke(root, ["device-plugin", f"--config={config}", f"--host-root={host}", *arguments])


def test_check_lists_the_devices_with_their_health(host: Path) -> None:
    result = _run(host, "--check")
    assert result.output.splitlines() == [
        "RESOURCE            DEVICE   PATH        NUMA  HEALTH",
        "example.com/dongle  front    /dev/front  1     unhealthy: /dev/front does not exist",
        "example.com/dongle  tty0     /dev/tty0         healthy",
        "example.com/dongle  tty1     /dev/tty1         unhealthy: /run/tty1.ok does not exist",
        "example.com/seat    seat::0                    healthy",
        "example.com/seat    seat::1                    healthy",
    ]
    assert result.exit_code == 1


def test_check_prints_json(host: Path) -> None:
    printed = json.loads(_run(host, "--check", "-o", "json").stdout)
    assert printed["kind"] == "DeviceList"
    assert printed["items"][0] == {
        "resource": "example.com/dongle",
        "id": "front",
        "path": "/dev/front",
        "numa": 1,
        "healthy": False,
        "reason": "/dev/front does not exist",
    }


def test_healthy_devices_are_exit_code_0(host: Path) -> None:
    host.with_name("devices.yaml").write_text(_CONFIG.replace("tty*}, {id: front, path: /dev/front, numa: 1", "tty0"))
    assert _run(host, "--check").exit_code == 0


def test_a_mistake_has_its_line_and_exit_code_2(host: Path) -> None:
    host.with_name("devices.yaml").write_text(_CONFIG.replace("replicas: 2", "replica: 2"), "utf-8")
    result = _run(host, "--check")
    assert ":7:51  error" in result.output
    assert 'resources[1].replica: there is no such field here; did you mean "replicas"?' in result.output
    assert result.exit_code == 2


def test_a_missing_file_is_exit_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(root, ["device-plugin", f"--config={tmp_path / 'no.yaml'}"])
    assert result.exit_code == 2
    assert "cannot be read: No such file or directory" in result.output


def test_without_the_folder_of_the_kubelet_it_does_not_start(host: Path) -> None:
    result = _run(host, f"--kubelet-folder={host / 'none'}")
    assert result.exit_code == 2
    assert "mount the kubelet's folder of device plugins there, or name it by --kubelet-folder" in result.output


def test_an_address_that_is_none_is_exit_code_2(host: Path) -> None:
    result = _run(host, "--monitor=localhost")
    assert result.exit_code == 2
    assert "'localhost' is not an IP address and a port" in result.output
