"""The rules in which modelled versions of the allocator of devices differ, each for the versions before and after."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tests.accounting.allocation.recorded_cases import answer
from tests.accounting.scheduling.clusters import node, pod
from tests.accounting.scheduling.product_scheduler import decide

DRIVER = "gpu.example.com"
V1_36, V1_37, V1_38 = MODELLED_VERSIONS
Json = dict[str, Any]


def _create_slice(*devices: Json, on: str = "a", count: int = 1) -> Json:
    pool = {"name": on, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": on, "devices": list(devices)}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{on}"}, "spec": spec}


def _allocate(
    version: KubernetesVersion, devices: list[Json], devices_of_claim: Json, allocated: Json | None = None
) -> Json:
    """Return the devices of a claim, with the capacity that they consume, or the error."""
    case = {
        "allocated": allocated or {},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [_create_slice(*devices)],
        "node": {"metadata": {"name": "a"}},
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": devices_of_claim}}],
    }
    found = answer(case, version)
    if "results" not in found:
        return found
    results = found["results"][0]["devices"].get("results", [])
    return {each["device"]: each.get("consumedCapacity", {}) for each in results}


def _request(**exactly: Any) -> Json:
    return {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **exactly}}


def _create_shared_device(capacity: Json) -> Json:
    return {"name": "d", "allowMultipleAllocations": True, "capacity": capacity}


def _ask(**requests: str) -> Json:
    named = {name.replace("of_driver_", f"{DRIVER}/"): amount for name, amount in requests.items()}
    return {"requests": [_request(capacity={"requests": named})]}


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
    found = _allocate(version, [_create_shared_device({published: {"value": "8"}})], _ask(**{written: "3"}))
    assert found == ({} if version is V1_37 else {"d": {published: "3"}})


@pytest.mark.parametrize(("version", "fits"), [(V1_37, True), (V1_38, False)], ids=str)
def test_what_claims_have_counts_under_both_names_from_1_38_on(version: KubernetesVersion, *, fits: bool) -> None:
    """Count what a claim got before its driver began to write its own name before the capacity."""
    allocated = {"shared": [f"{DRIVER}/a/d/s"], "capacity": {f"{DRIVER}/a/d": {f"{DRIVER}/memory": "6"}}}
    found = _allocate(version, [_create_shared_device({"memory": {"value": "8"}})], _ask(memory="3"), allocated)
    assert bool(found) is fits


def test_a_request_by_both_names_is_an_error_from_1_38_on() -> None:
    """Reject what 1.37 does not find: the capacity under the name with the driver."""
    devices, asked = [_create_shared_device({"memory": {"value": "8"}})], _ask(memory="1", of_driver_memory="2")
    assert _allocate(V1_37, devices, asked) == {}
    assert _allocate(V1_38, devices, asked) == {
        "error": f"claim c, request r: checking capacity for device {DRIVER}/a/d: "
        f'capacity "memory" requested both as "{DRIVER}/memory" and as "memory"'
    }


def test_a_negative_request_ends_the_allocation_from_1_38_on() -> None:
    """Reject a request that 1.37 rounds up to the smallest valid amount."""
    policy = {"default": "1", "validRange": {"min": "1"}}
    devices, asked = [_create_shared_device({"memory": {"value": "8", "requestPolicy": policy}})], _ask(memory="-2")
    assert _allocate(V1_37, devices, asked) == {"d": {"memory": "1"}}
    assert "capacity value is negative: request -2" in _allocate(V1_38, devices, asked)["error"]


@pytest.mark.parametrize(("version", "expected"), [(V1_37, {"d": {}}), (V1_38, {})], ids=str)
@pytest.mark.parametrize("capacity", [{}, {f"{DRIVER}/a/d": {"memory": "6"}}], ids=["a share", "a share of capacity"])
def test_a_device_with_a_share_is_not_allocated_alone_from_1_38_on(
    version: KubernetesVersion, expected: Json, capacity: Json
) -> None:
    """Keep a device that its driver has published for several claims before, while one of them has it."""
    allocated = {"shared": [f"{DRIVER}/a/d/s"], "capacity": capacity}
    assert _allocate(version, [{"name": "d"}], {"requests": [_request()]}, allocated) == expected


@pytest.mark.parametrize(("version", "expected"), [(V1_37, {}), (V1_38, {"d0": {}, "d1": {}})], ids=str)
def test_versions_match_without_their_builds_from_1_38_on(version: KubernetesVersion, expected: Json) -> None:
    devices = [
        {"name": name, "attributes": {"driver": {"version": text}}}
        for name, text in (("d0", "1.2.0+a"), ("d1", "1.2.0"))
    ]
    claim = {"requests": [_request(count=2)], "constraints": [{"matchAttribute": f"{DRIVER}/driver"}]}
    assert _allocate(version, devices, claim) == expected


@pytest.mark.parametrize(("version", "consumed"), [(V1_37, "3"), (V1_38, "2500m")], ids=str)
def test_amounts_of_capacity_have_fractions_from_1_38_on(version: KubernetesVersion, consumed: str) -> None:
    """Round up by a step of 500m: before, the range and the amount count in whole units."""
    policy = {"default": "1", "validRange": {"min": "500m", "step": "500m"}}
    devices = [_create_shared_device({"cores": {"value": "8", "requestPolicy": policy}})]
    assert _allocate(version, devices, _ask(cores="2100m")) == {"d": {"cores": consumed}}


def test_an_unusable_pool_keeps_pods_from_its_own_node_alone_from_1_38_on() -> None:
    """Place a pod that wants all devices beside a node whose pool lacks a slice: 1.37 ends the attempt."""
    request = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
        _create_slice({"name": "d"}, on="a", count=2),
        _create_slice({"name": "d"}, on="b"),
        claim,
    ]
    new = pod("new") | {"status": {}}
    new["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    new["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    older, newer = (decide([node("a"), node("b")], [], objects, new, version) for version in (V1_37, V1_38))
    assert older.nodes == set()
    assert "currently being updated" in older.message
    assert newer.nodes == {"b"}
