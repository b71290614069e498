"""The rules in which modelled versions of the allocator of devices differ, where a case has more than two answers."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tests.accounting.kubernetes_versions.allocator_switches import (
    DRIVER,
    allocate,
    ask,
    ask_capacity,
    create_shared_device,
    create_slice,
)

V1_36, V1_37, V1_38 = MODELLED_VERSIONS


@pytest.mark.parametrize(
    ("published", "written"),
    [("memory", "of_driver_memory"), (f"{DRIVER}/memory", "memory")],
    ids=["without the driver", "with the driver"],
)
@pytest.mark.parametrize("version", [V1_37, V1_38], ids=str)
def test_a_capacity_is_requested_with_and_without_its_driver_from_1_38_on(
    version: KubernetesVersion, published: str, written: str
) -> None:
    """Find the capacity under the other name; the result has the name that the driver publishes."""
    slices = [create_slice(create_shared_device({published: {"value": "8"}}))]
    found = allocate(version, slices, ask_capacity(**{written: "3"}))
    assert found == ({} if version is V1_37 else {"d": {published: "3"}})


@pytest.mark.parametrize(("version", "fits"), [(V1_37, True), (V1_38, False)], ids=str)
def test_what_claims_have_counts_under_both_names_from_1_38_on(version: KubernetesVersion, *, fits: bool) -> None:
    """Count what a claim got before its driver began to write its own name before the capacity."""
    allocated = {"shared": [f"{DRIVER}/a/d/s"], "capacity": {f"{DRIVER}/a/d": {f"{DRIVER}/memory": "6"}}}
    slices = [create_slice(create_shared_device({"memory": {"value": "8"}}))]
    assert bool(allocate(version, slices, ask_capacity(memory="3"), allocated)) is fits


def test_a_request_by_both_names_is_an_error_from_1_38_on() -> None:
    """Reject what 1.37 does not find: the capacity under the name with the driver."""
    slices = [create_slice(create_shared_device({"memory": {"value": "8"}}))]
    asked = ask_capacity(memory="1", of_driver_memory="2")
    assert allocate(V1_37, slices, asked) == {}
    assert allocate(V1_38, slices, asked) == {
        "error": f"claim c, request r: checking capacity for device {DRIVER}/a/d: "
        f'capacity "memory" requested both as "{DRIVER}/memory" and as "memory"'
    }


def test_a_negative_request_ends_the_allocation_from_1_38_on() -> None:
    """Reject a request that 1.37 rounds up to the smallest valid amount."""
    policy = {"default": "1", "validRange": {"min": "1"}}
    slices = [create_slice(create_shared_device({"memory": {"value": "8", "requestPolicy": policy}}))]
    assert allocate(V1_37, slices, ask_capacity(memory="-2")) == {"d": {"memory": "1"}}
    assert "capacity value is negative: request -2" in allocate(V1_38, slices, ask_capacity(memory="-2"))["error"]


@pytest.mark.parametrize(("version", "expected"), [(V1_37, {"d": {}}), (V1_38, {})], ids=str)
@pytest.mark.parametrize("capacity", [{}, {f"{DRIVER}/a/d": {"memory": "6"}}], ids=["a share", "a share of capacity"])
def test_a_device_with_a_share_is_not_allocated_alone_from_1_38_on(
    version: KubernetesVersion, expected: dict[str, Any], capacity: dict[str, Any]
) -> None:
    """Keep a device that its driver has published for several claims before, while one of them has it."""
    allocated = {"shared": [f"{DRIVER}/a/d/s"], "capacity": capacity}
    assert allocate(version, [create_slice({"name": "d"})], {"requests": [ask()]}, allocated) == expected
