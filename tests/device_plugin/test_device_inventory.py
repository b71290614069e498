"""The inventory: stable IDs, devices that vanish and return, and shared devices."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.device_plugin.device_config import MAX_DEVICES, MAX_REPLICAS, DeviceResource, HealthCheck
from tallygate.device_plugin.device_inventory import (
    DEVICE_ID,
    MAX_ID_LENGTH,
    MISSING_SECONDS,
    FoundDevice,
    create_device_id,
    list_offered,
    observe_devices,
    record_check,
)
from tallygate.device_plugin.health_transitions import HealthResult

_DONGLES = DeviceResource("example.com/dongle", ())
_CHECKED = DeviceResource("example.com/dongle", (), health=HealthCheck(file="/run/{id}", failures=2))


@pytest.mark.parametrize(
    ("path", "device_id"),
    [
        pytest.param("/dev/ttyUSB0", "ttyUSB0", id="a file in dev has its name"),
        pytest.param("/dev/fpga/0", "fpga-0-85b522834b", id="a file below has a hash, as /dev/fpga-0 is another one"),
        pytest.param("/srv/x", "srv-x-c0fdb79966", id="a file elsewhere has one too"),
    ],
)
def test_the_id_of_a_path_never_changes(path: str, device_id: str) -> None:
    """Compare with fixed texts: the kubelet remembers allocations by ID over any restart and update."""
    assert create_device_id(path) == device_id


@given(st.text(string.printable + "äß\u2028", max_size=300))
def test_any_path_has_an_id_that_the_kubelet_accepts(rest: str) -> None:
    device_id = create_device_id(f"/dev/{rest}")
    assert DEVICE_ID.fullmatch(device_id)
    assert len(device_id) <= MAX_ID_LENGTH
    assert len(f"{device_id}::{MAX_REPLICAS - 1}") <= 63


@given(st.sets(st.text("ab-/_. ", min_size=1, max_size=80), min_size=2, max_size=5))
def test_two_paths_have_two_ids(names: set[str]) -> None:
    assert len({create_device_id(f"/dev/{name}") for name in names}) == len(names)


def test_a_vanished_device_is_unhealthy_for_an_hour_then_left_out() -> None:
    first = observe_devices({}, [FoundDevice("a", "/dev/a"), FoundDevice("b", "/dev/b")], _DONGLES, 0.0)
    vanished = observe_devices(first, [FoundDevice("b", "/dev/b")], _DONGLES, 10.0)
    assert [(each.offered_id, each.problem) for each in list_offered(vanished, _DONGLES)] == [
        ("a", "/dev/a does not exist now"),
        ("b", ""),
    ]
    still = observe_devices(vanished, [FoundDevice("b", "/dev/b")], _DONGLES, 9.0 + MISSING_SECONDS)
    assert set(still) == {"a", "b"}
    assert set(observe_devices(still, [FoundDevice("b", "/dev/b")], _DONGLES, 10.0 + MISSING_SECONDS)) == {"b"}


def test_a_device_that_returns_is_healthy_at_once_without_a_check() -> None:
    found = [FoundDevice("a", "/dev/a")]
    vanished = observe_devices(observe_devices({}, found, _DONGLES, 0.0), [], _DONGLES, 1.0)
    back = observe_devices(vanished, found, _DONGLES, 2.0)
    assert [each.problem for each in list_offered(back, _DONGLES)] == [""]
    assert back["a"].missing_since is None


def test_a_checked_device_is_unhealthy_until_its_first_check() -> None:
    inventory = observe_devices({}, [FoundDevice("a", "/dev/a")], _CHECKED, 0.0)
    assert [each.problem for each in list_offered(inventory, _CHECKED)] == ["not checked yet"]
    passed = record_check(inventory, "a", HealthResult(), _CHECKED)
    assert [each.problem for each in list_offered(passed, _CHECKED)] == [""]
    failed = record_check(passed, "a", HealthResult("broken"), _CHECKED)
    assert [each.problem for each in list_offered(failed, _CHECKED)] == [""]
    again = record_check(failed, "a", HealthResult("broken"), _CHECKED)
    assert [each.problem for each in list_offered(again, _CHECKED)] == ["broken"]


def test_a_result_for_a_device_that_left_changes_nothing() -> None:
    assert record_check({}, "a", HealthResult(), _CHECKED) == {}


def test_a_shared_device_has_an_id_for_each_replica() -> None:
    shared = DeviceResource("example.com/dongle", (), replicas=3)
    inventory = observe_devices({}, [FoundDevice("a", "/dev/a", 1)], shared, 0.0)
    assert [(each.offered_id, each.device.device_id) for each in list_offered(inventory, shared)] == [
        ("a::0", "a"),
        ("a::1", "a"),
        ("a::2", "a"),
    ]


def test_the_list_is_bounded() -> None:
    shared = DeviceResource("example.com/dongle", (), replicas=7)
    found = [FoundDevice(f"d{number}") for number in range(2_000)]
    assert 0 <= MAX_DEVICES - len(list_offered(observe_devices({}, found, shared, 0.0), shared)) < 7


def test_of_two_devices_with_one_id_the_first_counts() -> None:
    found = [FoundDevice("a", "/dev/first"), FoundDevice("a", "/dev/second")]
    assert observe_devices({}, found, _DONGLES, 0.0)["a"].found.path == "/dev/first"
