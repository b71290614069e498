"""The cases of the switches of the allocator of devices."""

from typing import Any

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tests.accounting.allocation.recorded_cases import answer
from tests.accounting.kubernetes_versions.switch_case import switch_case
from tests.accounting.scheduling.clusters import node, pod
from tests.accounting.scheduling.devices import claim, device_class, device_slice, request, taint_rule
from tests.accounting.scheduling.product_scheduler import decide

DRIVER = "gpu.example.com"
Json = dict[str, Any]
_POOL = {"name": "p", "generation": 1, "resourceSliceCount": 2}


def create_slice(*devices: Json, on: str = "a", count: int = 1, **more: Any) -> Json:
    """Return a slice of devices on a node; `count` slices make its pool."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": on, "devices": list(devices), **more}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{on}"}, "spec": spec}


def allocate(
    version: KubernetesVersion,
    slices: list[Json],
    devices_of_claim: Json,
    allocated: Json | None = None,
) -> Json:
    """Return the devices of a claim, with the capacity that they consume, or the error; nothing without devices."""
    case = {
        "allocated": allocated or {},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "node": {"metadata": {"name": "a"}},
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": devices_of_claim}}],
    }
    found = answer(case, version)
    if "results" not in found:
        return found
    results = found["results"][0]["devices"].get("results", [])
    return {each["device"]: each.get("consumedCapacity", {}) for each in results}


def ask(name: str = "r", **exactly: Any) -> Json:
    """Return a request for one device of any kind, with more fields."""
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **exactly}}


def create_shared_device(capacity: Json, **more: Any) -> Json:
    """Return a device that several claims share."""
    return {"name": "d", "allowMultipleAllocations": True, "capacity": capacity, **more}


def ask_capacity(**requests: str) -> Json:
    """Return a claim for amounts of capacity; `of_driver_` stands for the name of the driver."""
    named = {name.replace("of_driver_", f"{DRIVER}/"): amount for name, amount in requests.items()}
    return {"requests": [ask(capacity={"requests": named})]}


def select(expression: str) -> Json:
    """Return the fields of a request that selects devices by an expression."""
    return {"selectors": [{"cel": {"expression": expression}}]}


@switch_case(Switch.APPLIES_TAINT_RULES, before={"a"}, after=set())
def ask_for_a_device_that_a_rule_taints(version: KubernetesVersion) -> Any:
    objects = [device_class(), device_slice("a", ["d0"]), taint_rule("r", {}), claim("c", request())]
    new = pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    return set(decide([node("a")], [], objects, new, version).nodes)


@switch_case(Switch.READS_LIST_ATTRIBUTES, before=True, after=False)
def select_a_device_with_a_list(version: KubernetesVersion) -> Any:
    """Return whether an expression that does not read the list fails."""
    devices = [{"name": "d", "attributes": {"links": {"strings": ["a", "b"]}}}]
    return "error" in allocate(version, [create_slice(*devices)], {"requests": [ask(**select("true"))]})


@switch_case(Switch.REJECTS_UNREADABLE_CAPACITY, before=False, after=True)
def ask_for_more_than_int64(version: KubernetesVersion) -> Any:
    """Return whether a request for capacity beyond int64 ends the allocation, where the device has a policy."""
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    devices = [create_shared_device({"memory": {"value": "8", "requestPolicy": policy}})]
    return "error" in allocate(version, [create_slice(*devices)], ask_capacity(memory="10E"))


@switch_case(Switch.COMPARES_EVERY_DISTINCT_VALUE, before=["d0", "d1", "d2"], after=[])
def ask_for_distinct_devices(version: KubernetesVersion) -> Any:
    """Return the devices of one request whose first and third device have the same value."""
    devices = [
        {"name": f"d{index}", "attributes": {"rack": {"string": rack}}} for index, rack in enumerate(("x", "y", "x"))
    ]
    asked = {"requests": [ask(count=3)], "constraints": [{"distinctAttribute": f"{DRIVER}/rack"}]}
    return list(allocate(version, [create_slice(*devices)], asked))


def _create_counters(driver: str) -> Json:
    """Return the slice with the counters of a pool, whose name both drivers use."""
    counters = [{"name": "c", "counters": {"memory": {"value": "4"}}}]
    spec = {"driver": driver, "pool": _POOL, "nodeName": "a", "sharedCounters": counters}
    return {"metadata": {"name": f"counters-{driver}"}, "spec": spec}


def _create_consumer(driver: str, **more: Any) -> Json:
    """Return the slice of that pool with one device, which consumes all of the counter."""
    consumed = [{"counterSet": "c", "counters": {"memory": {"value": "4"}}, **more}]
    devices = [{"name": f"d-{driver}", "consumesCounters": consumed}]
    return {
        "metadata": {"name": f"devices-{driver}"},
        "spec": {"driver": driver, "pool": _POOL, "nodeName": "a", "devices": devices},
    }


@switch_case(Switch.SEPARATES_COUNTERS_OF_DRIVERS, before=[], after=["d-one", "d-two"])
def ask_for_devices_of_two_drivers_with_one_pool_name(version: KubernetesVersion) -> Any:
    slices = [make(driver) for driver in ("one", "two") for make in (_create_counters, _create_consumer)]
    return list(allocate(version, slices, {"requests": [ask(count=2)]}))


@switch_case(Switch.PLACES_COUNTER_SLICES, before=["error"], after=["d"])
def ask_for_all_devices_beside_counters_of_another_node(version: KubernetesVersion) -> Any:
    """Return the devices, where a pool of node b lacks a slice and has counters: 1.36 reads these on every node."""
    counters = _create_counters("one")
    counters["spec"]["nodeName"] = "b"
    everything = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}
    return list(allocate(version, [counters, create_slice({"name": "d"})], {"requests": [everything]}))


@switch_case(Switch.LEAVES_OUT_COMPATIBILITY_GROUPS, before=["d-one"], after=[])
def ask_for_a_device_with_compatibility_groups(version: KubernetesVersion) -> Any:
    slices = [_create_counters("one"), _create_consumer("one", compatibilityGroups=["g"])]
    return list(allocate(version, slices, {"requests": [ask()]}))


@switch_case(Switch.NEEDS_EVERY_DEVICE_OF_ALL, before=["e"], after=[])
def ask_for_all_devices_of_which_one_is_used_up(version: KubernetesVersion) -> Any:
    devices = [create_shared_device({"memory": {"value": "8"}}), {"name": "e", "allowMultipleAllocations": True}]
    allocated = {"shared": [f"{DRIVER}/a/d/s"], "capacity": {f"{DRIVER}/a/d": {"memory": "8"}}}
    everything = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}
    return list(allocate(version, [create_slice(*devices)], {"requests": [everything]}, allocated))


@switch_case(Switch.COUNTS_SHARES_WITHOUT_CAPACITY, before=[], after=["d"])
def ask_for_a_further_share_of_a_device_with_counters(version: KubernetesVersion) -> Any:
    consumed = [{"counterSet": "c", "counters": {"memory": {"value": "4"}}}]
    counters = create_slice(count=2, sharedCounters=[{"name": "c", "counters": {"memory": {"value": "4"}}}])
    counters["metadata"]["name"], counters["spec"]["devices"] = "counters", []
    slices = [counters, create_slice(create_shared_device({}, consumesCounters=consumed), count=2)]
    return list(allocate(version, slices, {"requests": [ask()]}, {"shared": [f"{DRIVER}/a/d/s"]}))


@switch_case(Switch.NAMES_DEVICE_IN_ERRORS, before=False, after=True)
def select_by_an_attribute_that_is_missing(version: KubernetesVersion) -> Any:
    """Return whether the error names the device."""
    expression = f'device.attributes["{DRIVER}"].missing == "x"'
    found = allocate(version, [create_slice({"name": "d"})], {"requests": [ask(**select(expression))]})
    return f"{DRIVER}/a/d" in found["error"]


@switch_case(Switch.LIMITS_DEVICES_BY_REQUEST, before=False, after=True)
def ask_for_too_many_devices(version: KubernetesVersion) -> Any:
    """Return whether the error names the request that exceeds the limit."""
    found = allocate(version, [create_slice({"name": "d"})], {"requests": [ask("one"), ask("many", count=40)]})
    return "request many" in found["error"]


@switch_case(Switch.ROUNDS_FRACTIONS_OF_CAPACITY, before={"d": {"cores": "3"}}, after={"d": {"cores": "2500m"}})
def ask_for_a_fraction_of_capacity(version: KubernetesVersion) -> Any:
    """Round up by a step of 500m: before, the range and the amount count in whole units."""
    policy = {"default": "1", "validRange": {"min": "500m", "step": "500m"}}
    devices = [create_shared_device({"cores": {"value": "8", "requestPolicy": policy}})]
    return allocate(version, [create_slice(*devices)], ask_capacity(cores="2100m"))


@switch_case(Switch.QUALIFIES_CAPACITY_NAMES, before={}, after={"d": {"memory": "3"}})
def ask_for_a_capacity_with_its_driver(version: KubernetesVersion) -> Any:
    devices = [create_shared_device({"memory": {"value": "8"}})]
    return allocate(version, [create_slice(*devices)], ask_capacity(of_driver_memory="3"))


@switch_case(Switch.REJECTS_NEGATIVE_CAPACITY, before=["d"], after=["error"])
def ask_for_a_negative_capacity(version: KubernetesVersion) -> Any:
    """Return the device with the smallest valid amount, or that the allocation ends."""
    policy = {"default": "1", "validRange": {"min": "1"}}
    devices = [create_shared_device({"memory": {"value": "8", "requestPolicy": policy}})]
    return list(allocate(version, [create_slice(*devices)], ask_capacity(memory="-2")))


@switch_case(Switch.KEEPS_SHARED_DEVICES_SHARED, before=["d"], after=[])
def ask_for_a_device_that_was_shared(version: KubernetesVersion) -> Any:
    """Return the device that its driver has published for several claims before, while one of them has it."""
    asked, allocated = {"requests": [ask()]}, {"shared": [f"{DRIVER}/a/d/s"], "capacity": {}}
    return list(allocate(version, [create_slice({"name": "d"})], asked, allocated))


@switch_case(Switch.SKIPS_NODES_OF_UNUSABLE_POOLS, before=set(), after={"b"})
def ask_for_all_devices_beside_a_pool_that_lacks_a_slice(version: KubernetesVersion) -> Any:
    everything = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
        create_slice({"name": "d"}, on="a", count=2),
        create_slice({"name": "d"}, on="b"),
        claim("c", everything),
    ]
    new = pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    return set(decide([node("a"), node("b")], [], objects, new, version).nodes)


@switch_case(Switch.IGNORES_BUILDS_OF_VERSIONS, before=[], after=["d0", "d1"])
def ask_for_devices_whose_versions_differ_by_their_build(version: KubernetesVersion) -> Any:
    devices = [
        {"name": name, "attributes": {"driver": {"version": text}}}
        for name, text in (("d0", "1.2.0+a"), ("d1", "1.2.0"))
    ]
    asked = {"requests": [ask(count=2)], "constraints": [{"matchAttribute": f"{DRIVER}/driver"}]}
    return list(allocate(version, [create_slice(*devices)], asked))
