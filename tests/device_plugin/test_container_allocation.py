"""The answer for one container: device nodes, mounts, environment, annotations and names of CDI."""

import pytest

from tallygate.device_plugin.container_allocation import (
    ContainerAllocation,
    ContainerMount,
    DeviceNode,
    DeviceRefusedError,
    allocate_devices,
)
from tallygate.device_plugin.device_config import ContainerTemplate, MountTemplate
from tallygate.device_plugin.device_inventory import FoundDevice, OfferedDevice

_A, _B, _SEAT = FoundDevice("a", "/dev/a"), FoundDevice("b", "/dev/b"), FoundDevice("seat")
_OFFERED = {
    each.offered_id: each
    for each in (
        OfferedDevice("a::0", _A),
        OfferedDevice("a::1", _A),
        OfferedDevice("b::0", _B),
        OfferedDevice("seat", _SEAT),
        OfferedDevice("sick", FoundDevice("sick", "/dev/sick"), "no answer"),
    )
}


def test_without_a_template_a_device_node_stands_at_its_own_path() -> None:
    assert allocate_devices(_OFFERED, ["b::0", "a::0"], ContainerTemplate()) == ContainerAllocation(
        (DeviceNode("/dev/a", "/dev/a", "rw"), DeviceNode("/dev/b", "/dev/b", "rw")), (), {}, {}, ()
    )


def test_two_replicas_of_one_device_are_one_device_node() -> None:
    given = allocate_devices(_OFFERED, ["a::0", "a::1"], ContainerTemplate(env={"N": "{count}", "IDS": "{ids}"}))
    assert given.device_nodes == (DeviceNode("/dev/a", "/dev/a", "rw"),)
    assert given.env == {"N": "1", "IDS": "a"}


def test_placeholders_are_filled_for_each_device_and_for_all() -> None:
    template = ContainerTemplate(
        path="/dev/dongle{index}",
        permissions="r",
        mounts=(MountTemplate("/opt/{id}", "/opt/{index}"), MountTemplate("/opt/lib", "/lib/dongle", read_only=False)),
        env={"PATHS": "{paths}", "JSON": '{"n": {count}}', "WORD": "{word}"},
        annotations={"example.com/ids": "{ids}"},
        cdi_devices=("example.com/dongle={id}", "example.com/dongle=common"),
    )
    assert allocate_devices(_OFFERED, ["a::1", "b::0"], template) == ContainerAllocation(
        (DeviceNode("/dev/dongle0", "/dev/a", "r"), DeviceNode("/dev/dongle1", "/dev/b", "r")),
        (
            ContainerMount("/opt/0", "/opt/a", read_only=True),
            ContainerMount("/lib/dongle", "/opt/lib", read_only=False),
            ContainerMount("/opt/1", "/opt/b", read_only=True),
        ),
        {"PATHS": "/dev/a,/dev/b", "JSON": '{"n": 2}', "WORD": "{word}"},
        {"example.com/ids": "a,b"},
        ("example.com/dongle=a", "example.com/dongle=common", "example.com/dongle=b"),
    )


def test_a_device_without_a_file_has_no_device_node() -> None:
    given = allocate_devices(_OFFERED, ["seat"], ContainerTemplate(env={"IDS": "{ids}", "PATHS": "{paths}"}))
    assert given.device_nodes == ()
    assert given.env == {"IDS": "seat", "PATHS": ""}


@pytest.mark.parametrize(
    ("device_id", "message"),
    [
        ("sick", "device sick is unhealthy: no answer"),
        ("c::0", "device 'c::0' is not offered here; the kubelet has an old list"),
        ("\x1b[31m", "device '\\x1b[31m' is not offered here; the kubelet has an old list"),
    ],
)
def test_a_device_that_no_container_can_have_is_an_error(device_id: str, message: str) -> None:
    with pytest.raises(DeviceRefusedError) as raised:
        allocate_devices(_OFFERED, ["a::0", device_id], ContainerTemplate())
    assert str(raised.value) == message
