"""The cache of devices: whatever the order of events, it equals the devices of the final objects."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.prediction import find_unresolvable_nodes
from tallygate.accounting.scheduling.remedies import find_remedies
from tallygate.accounting.scheduling.schedule import schedule_one
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import (
    claim,
    claim_template,
    device,
    device_class,
    device_slice,
    request,
    taint_rule,
)
from tests.accounting.scheduling.product_scheduler import create_full_cluster
from tests.conformance.case import read_cases
from tests.state.informers.device_watches import DeviceWatches

CASES = Path(__file__).parents[2] / "conformance" / "cases"
RECORDED = [
    (path.name, number, case)
    for path in sorted(CASES.glob("*schedule-dra*"))
    for number, case in enumerate(read_cases(path))
]


def describe(cluster: Cluster, raw: Mapping[str, Any]) -> Any:
    """Return what a prediction reads of a cluster for a pod: nodes, reasons, and nodes that can never run it."""
    incoming = IncomingPod.from_pod(decode_pod(raw), cluster.priority_classes)
    diagnosis = run_filters(incoming, cluster)
    result = schedule_one(incoming, cluster, diagnosis)
    get_name = cluster.nodes.get_name
    never = sorted(get_name(each) for each in find_unresolvable_nodes(incoming, cluster, diagnosis.nodes))
    return sorted(map(get_name, diagnosis.feasible.tolist())), result.message, never, diagnosis.undecided


@pytest.mark.parametrize(("file", "number", "case"), RECORDED, ids=[f"{name} {number}" for name, number, _ in RECORDED])
def test_the_watched_devices_of_a_recorded_cluster_give_the_verdict_of_predict(
    file: str, number: int, case: dict[str, Any]
) -> None:
    version = case.get("kubernetes", "1.36")
    nodes, pods, others = case["nodes"] or [], case["pods"] or [], case.get("objects") or []
    watches = DeviceWatches(f"v{version}.0")
    kinds = [("Node", nodes), ("Pod", pods), ("", others)]
    for kind, objects in kinds:
        watches.send(*({"kind": kind, **each} for each in objects))
    watches.device_cache.build()
    with watches.open_cluster() as cluster:
        assert cluster.devices is not None, watches.device_cache.problem
        raw = {**case["pod"], "metadata": {**case["pod"]["metadata"], "uid": None}}
        expected = create_full_cluster(nodes, pods, others, cluster.version)
        cluster.storage, cluster.namespaces = expected.storage, expected.namespaces
        cluster.priority_classes, cluster.budgets = expected.priority_classes, expected.budgets
        assert describe(cluster, raw) == describe(expected, raw), (file, number)


OBJECTS: Sequence[dict[str, Any]] = (
    node("a") | {"kind": "Node"},
    node("b") | {"kind": "Node"},
    device_class(),
    device_class("example", resource="example.com/gpu"),
    device_slice("a", [device("d0", "80Gi"), device("d1", "40Gi")]),
    device_slice("b", [device("d0", "40Gi")]),
    claim("taken", allocated=["a/d0"], pods=["other"]),
    claim("free", request(selectors=['device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'])),
    claim("mine", allocated=["a/d1"]),
    claim_template("two", request(count=2)),
    taint_rule("worn", {"pool": "a", "device": "d1"}),
    taint_rule("upkeep", {"pool": "b"}, effect="NoExecute"),
)
PODS = (
    pod("by-name", resourceClaims=[{"name": "g", "resourceClaimName": "free"}]),
    pod("allocated", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}]),
    pod("by-template", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "two"}]),
)


def check_equal(watches: DeviceWatches, objects: Sequence[dict[str, Any]]) -> None:
    """Compare the watched devices with a cluster that is made from the final objects."""
    nodes = [each for each in objects if each["kind"] == "Node"]
    expected = create_full_cluster(nodes, [], [each for each in objects if each["kind"] != "Node"])
    with watches.open_cluster() as cluster:
        assert cluster.devices is not None
        cluster.storage = expected.storage
        for each in PODS:
            assert describe(cluster, each) == describe(expected, each)


@given(st.permutations(range(len(OBJECTS))), st.integers(0, len(OBJECTS)), st.data())
def test_events_in_any_order_give_the_devices_of_the_final_objects(
    order: list[int], built_after: int, data: st.DataObject
) -> None:
    watches = DeviceWatches()
    for step, index in enumerate(order):
        if step == built_after:
            watches.device_cache.build()
        watches.send(OBJECTS[index])
        if data.draw(st.booleans()):
            watches.send(OBJECTS[data.draw(st.sampled_from(order[: step + 1]))])
    watches.device_cache.build()
    check_equal(watches, OBJECTS)
    for index in sorted(set(data.draw(st.lists(st.integers(2, len(OBJECTS) - 1), max_size=4)))):
        watches.send(OBJECTS[index], event="DELETED")
        check_equal(watches, [each for each in OBJECTS if each is not OBJECTS[index]])
        watches.send(OBJECTS[index], event="ADDED")
    check_equal(watches, OBJECTS)


@pytest.mark.parametrize("kind", ["ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"])
def test_a_relist_removes_what_was_deleted_and_changes_nothing_else(kind: str) -> None:
    watches = DeviceWatches()
    watches.send(*OBJECTS)
    watches.device_cache.build()
    watches.relist(kind, [each for each in OBJECTS if each["kind"] == kind])
    check_equal(watches, OBJECTS)
    first = next(each for each in OBJECTS if each["kind"] == kind)
    watches.relist(kind, [each for each in OBJECTS if each["kind"] == kind and each is not first])
    check_equal(watches, [each for each in OBJECTS if each is not first])


def test_a_slice_of_a_new_generation_replaces_the_devices() -> None:
    watches = DeviceWatches()
    watches.send(*OBJECTS)
    watches.device_cache.build()
    newer = device_slice("a", [device("d7", "80Gi")], pool={"generation": 2}) | {"metadata": {"name": "slice-a-2"}}
    watches.send(newer)
    check_equal(watches, [*OBJECTS, newer])


def test_an_unreadable_slice_leaves_the_devices_unknown_until_it_is_readable() -> None:
    watches = DeviceWatches()
    watches.send(*OBJECTS, device_slice("c", [device("d0", "many")]))
    watches.device_cache.build()
    assert watches.device_cache.get_index() is None
    assert "slice-c" in watches.device_cache.problem
    watches.send(device_slice("c", [device("d0", "1Gi")]))
    assert isinstance(watches.device_cache.get_index(), DeviceIndex)
    assert watches.device_cache.problem == ""


def test_the_device_of_a_claim_that_is_allocated_later_is_no_longer_free() -> None:
    slices = [device_class(), device_slice("a", [device("d0", "80Gi")])]
    watches = DeviceWatches()
    watches.send(node("a") | {"kind": "Node"}, *slices, claim("later"), claim("waiting"))
    watches.device_cache.build()
    waiting = pod("waiting", resourceClaims=[{"name": "g", "resourceClaimName": "waiting"}])
    feasible = []
    for _ in range(2):
        with watches.open_cluster() as cluster:
            feasible.append(describe(cluster, waiting)[0])
        watches.send(claim("later", allocated=["a/d0"], pods=["other"]))
    assert feasible == [["a"], []]


@pytest.mark.parametrize("is_deleted", [False, True], ids=["corrected", "deleted"])
def test_an_unreadable_claim_leaves_the_devices_unknown_until_it_is_corrected_or_deleted(*, is_deleted: bool) -> None:
    unreadable = claim("taken", allocated=["a/d0"], pods=["other"])
    shared = {"shareID": "s", "consumedCapacity": {"memory": "many"}}
    unreadable["status"]["allocation"]["devices"]["results"][0] |= shared
    watches = DeviceWatches()
    watches.send(*OBJECTS, unreadable)
    watches.device_cache.build()
    assert "claim default/taken" in watches.device_cache.problem
    if is_deleted:
        watches.send(unreadable, event="DELETED")
    else:
        watches.send(claim("taken", allocated=["a/d0"], pods=["other"]))
    assert watches.device_cache.problem == ""


def test_devices_are_not_decoded_until_a_pod_needs_them() -> None:
    watches = DeviceWatches()
    watches.send(*OBJECTS)
    assert watches.device_cache.get_index() is None
    assert watches.device_cache.problem == "the devices of the cluster are being read"


def test_a_listed_slice_is_in_memory_once() -> None:
    watches = DeviceWatches()
    watches.send(*OBJECTS)
    before = watches.devices.find("slice-a")
    watches.relist("ResourceSlice", [each for each in OBJECTS if each["kind"] == "ResourceSlice"])
    after = watches.devices.find("slice-a")
    assert before is not None
    assert after is not None
    assert (after.devices is before.devices, after.revision > before.revision) == (True, True)


def test_remedies_leave_the_templates_to_their_store() -> None:
    watches = DeviceWatches("v1.37.0")
    watches.send(*(each for each in OBJECTS if each["kind"] != "DeviceTaintRule"))
    watches.device_cache.build()
    with watches.open_cluster() as cluster:
        assert cluster.devices is not None
        written = pod("new", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "two"}])
        del written["metadata"]["uid"]
        incoming = IncomingPod.from_pod(decode_pod(written))
        remedies = find_remedies(incoming, cluster, cluster.nodes.get_indices())
        assert any("in claim template default/two" in remedy.change for remedy in remedies), remedies
        assert not cluster.devices.templates
