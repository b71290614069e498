"""The configuration: what a file means, and one clear finding for each mistake."""

from pathlib import Path

import pytest

from tallygate.device_plugin.device_config import (
    ContainerTemplate,
    DeviceResource,
    DeviceSource,
    HealthCheck,
    MountTemplate,
)
from tallygate.device_plugin.device_config_reader import get_device_schema, read_device_config

_CASES = Path(__file__).parent / "cases" / "configs.txt"
_HEAD = "apiVersion: tallygate.dev/v1alpha1\nkind: DevicePluginConfig\n"


def _read_cases() -> dict[str, tuple[str, list[str]]]:
    """Return the cases by their sentence: a text, and the findings expected of it."""
    cases = {}
    for section in _CASES.read_text("utf-8").split("== ")[1:]:
        name, _, rest = section.partition("\n")
        text, _, findings = rest.partition("-- findings\n")
        cases[name] = (text, findings.split("\n")[:-1])
    return cases


@pytest.mark.parametrize("name", _read_cases())
def test_a_file_has_these_findings(name: str) -> None:
    text, expected = _read_cases()[name]
    read = read_device_config("devices.yaml", text.encode())
    assert [str(each).removeprefix("devices.yaml:") for each in read.findings] == [each for each in expected if each]


def test_a_whole_file_is_read() -> None:
    text = """
resources:
- name: example.com/dongle
  devices:
  - path: /dev/ttyUSB*
  - {id: front, path: /dev/serial/by-id/front, numa: 1}
  replicas: 4
  container:
    path: /dev/dongle{index}
    permissions: rwm
    mounts: [{hostPath: "/opt/{id}", path: /opt/dongle, readOnly: false}]
    env: {DONGLES: "{paths}"}
    annotations: {example.com/dongles: "{ids}"}
    cdiDevices: ["example.com/dongle={id}"]
  health: {command: [probe, "{path}"], interval: 1m, timeout: 2s, failures: 5, successes: 2}
- {name: example.com/seat, devices: [{id: seat-1}]}
"""
    read = read_device_config("devices.yaml", (_HEAD + text).encode())
    assert read.findings == ()
    assert read.resources == (
        DeviceResource(
            "example.com/dongle",
            (DeviceSource(path="/dev/ttyUSB*"), DeviceSource("front", "/dev/serial/by-id/front", 1)),
            replicas=4,
            container=ContainerTemplate(
                path="/dev/dongle{index}",
                permissions="rwm",
                mounts=(MountTemplate("/opt/{id}", "/opt/dongle", read_only=False),),
                env={"DONGLES": "{paths}"},
                annotations={"example.com/dongles": "{ids}"},
                cdi_devices=("example.com/dongle={id}",),
            ),
            health=HealthCheck(command=("probe", "{path}"), interval=60.0, timeout=2.0, failures=5, successes=2),
        ),
        DeviceResource("example.com/seat", (DeviceSource("seat-1"),)),
    )


def test_defaults_are_those_of_the_schema() -> None:
    text = "resources: [{name: a.b/c, devices: [{id: x}], health: {file: /run/x}}]"
    (resource,) = read_device_config("devices.yaml", (_HEAD + text).encode()).resources
    assert (resource.replicas, resource.container, resource.health) == (
        1,
        ContainerTemplate(),
        HealthCheck(file="/run/x"),
    )


def test_every_part_of_the_schema_has_a_title_a_description_and_an_example() -> None:
    def check(part: dict[str, object], path: str) -> list[str]:
        missing = [path] if "title" not in part or "description" not in part or "examples" not in part else []
        for name, child in {**_children(part)}.items():
            missing += check(child, f"{path}.{name}")
        return missing

    assert check(dict(get_device_schema().schema), "") == []


def _children(part: dict[str, object]) -> dict[str, dict[str, object]]:
    properties = part.get("properties")
    children = dict(properties) if isinstance(properties, dict) else {}
    for name in ("items", "additionalProperties"):
        child = part.get(name)
        if isinstance(child, dict):
            children[name] = child
    return children


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"[" * 100_000, b"a" * (1 << 20) + b"a"])
def test_hostile_bytes_are_one_finding(content: bytes) -> None:
    assert len(read_device_config("devices.yaml", content).findings) == 1
