"""Tests of the capacity of which limits are percentages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.admission.capacity_limits import Capacity
from tallygate.cluster import kinds
from tallygate.cluster.capacities import ComputedCapacities
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.resource_codec import Changed, Replaced
from tallygate.state.informers.named_stores import decode_node
from tests.cluster.objects import GPU, READ, Object, create_state, device, device_class, node, parse_cap, resource_slice

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def compute(spec: Mapping[str, Any], *objects: Object, now: datetime | None = NOW) -> ComputedCapacities:
    """Return the capacities of a cap in a cluster of these objects."""
    return create_state(objects).capacities.compute(parse_cap(spec), now)


def measure(spec: Mapping[str, Any], *objects: Object) -> int:
    """Return the only capacity of a cap in a cluster of these objects."""
    computed = compute(spec, *objects)
    assert computed.problem == ""
    ((_, capacity),) = computed.capacities["gpus"].items()
    return capacity.amount


ONE_GPU = {"hard": {GPU: "25%"}}
BY_CLASS = {"hard": {GPU: "25%"}, "devices": {GPU: {"classes": ["gpu.example.com"]}}}
SLICES = {"hard": {"slices": "25%"}, "counts": {"slices": {"weights": {"nvidia.com/mig": 1, GPU: 7}}}}
MAPPED, PLAIN = device_class("gpu.example.com", GPU), device_class("gpu.example.com")
BIG = {"selector": 'device.attributes["gpu.example.com"].type == "gpu"'}
FOUR = [device(f"gpu-{number}") for number in range(4)]
FOUR_OF_A = resource_slice("a-1", FOUR, nodeName="a")


def rack(number: str) -> Object:
    """Return the place of devices that the nodes of a rack reach."""
    requirement = {"key": "rack", "operator": "In", "values": [number]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


@pytest.mark.parametrize(
    ("spec", "objects", "amount"),
    [
        (ONE_GPU, [node("a", {GPU: 8}), node("b", {GPU: 4}), node("c", {"cpu": 4})], 12),
        ({"soft": {"cpu": "25%"}}, [node("a", {"cpu": "1900m"}), node("b", {"cpu": 2})], 3900),
        ({"hard": {"limits.memory": "25%"}}, [node("a", {"memory": "2Gi"})], 2 << 30),
        ({"hard": {"pods": "25%"}}, [node("a", {"pods": 110}), node("b", {"pods": 250})], 360),
        (ONE_GPU, [], 0),
        (SLICES, [node("a", {"nvidia.com/mig": 7}), node("b", {GPU: 2, "cpu": 3})], 7 + 14),
        ({**ONE_GPU, "capacity": {"nodeSelector": {"matchLabels": {"pool": "gpu"}}}},
         [node("a", {GPU: 8}, labels={"pool": "gpu"}), node("b", {GPU: 4})], 8),
        ({**ONE_GPU, "capacity": {"excludeTaints": ["maintenance"]}},
         [node("a", {GPU: 8}, taints=["maintenance"]), node("b", {GPU: 4}, taints=["other"])], 4),
        ({**ONE_GPU, "capacity": {"excludeTaints": ["node.kubernetes.io/unschedulable"]}},
         [node("a", {GPU: 8}, unschedulable=True), node("b", {GPU: 4})], 4),
        (ONE_GPU, [node("a", {GPU: 8}, unschedulable=True, taints=["x"])], 8),
    ],
)  # fmt: skip
def test_the_capacity_of_a_name_is_the_sum_of_what_is_allocatable_on_selected_nodes(
    spec: Mapping[str, Any], objects: list[Object], amount: int
) -> None:
    assert measure(spec, *objects) == amount


@pytest.mark.parametrize(
    ("spec", "objects", "amount"),
    [
        # a driver that publishes both, and two ways to one device: the larger amount of each node
        (ONE_GPU, [MAPPED, node("a", {GPU: 4}), FOUR_OF_A], 4),
        (ONE_GPU, [MAPPED, node("a", {GPU: 3}), FOUR_OF_A], 4),
        (ONE_GPU, [MAPPED, node("a", {GPU: 5}), node("b", {}),
                   resource_slice("b-1", FOUR, nodeName="b")], 9),
        (BY_CLASS, [PLAIN, node("a", {GPU: 4}), FOUR_OF_A], 4),
        ({"hard": {"gpu.example.com.deviceclass.resource.k8s.io/devices": "25%"}},
         [PLAIN, node("a", {}), FOUR_OF_A], 4),
        # only what the class selects; without a class nothing
        (BY_CLASS, [device_class("gpu.example.com", kind="mig"), node("a", {}),
                    resource_slice("a-1", [*FOUR, device("m", "mig")], nodeName="a")], 1),
        (BY_CLASS, [node("a", {GPU: 2}), FOUR_OF_A], 2),
        # devices of no node that counts
        (BY_CLASS, [PLAIN, FOUR_OF_A], 0),
        # devices that several nodes reach count once, if one of these counts
        (BY_CLASS, [PLAIN, node("a", {}), node("b", {GPU: 1}),
                    resource_slice("net-1", FOUR, allNodes=True)], 5),
        ({**BY_CLASS, "capacity": {"nodeSelector": {"matchLabels": {"rack": "1"}}}},
         [PLAIN, node("a", {}, labels={"rack": "1"}), node("b", {}, labels={"rack": "2"}),
          resource_slice("net1-1", FOUR[:1], **rack("1")), resource_slice("net2-1", FOUR[:2], **rack("2"))], 1),
        (BY_CLASS, [PLAIN, node("a", {}), resource_slice(
            "net-1", [device("x", nodeName="a"), device("y", allNodes=True), device("z", nodeName="c")],
            perDeviceNodeSelection=True)], 2),
        # a pool of the newest generation, in two slices with one device in both
        (BY_CLASS, [PLAIN, node("a", {}), FOUR_OF_A,
                    resource_slice("a-2", FOUR[:2], nodeName="a", generation=2, count=2),
                    resource_slice("a-3", FOUR[1:3], nodeName="a", generation=2, count=2)], 3),
        # definitions by attributes and capacities
        ({"hard": {"big": "25%"}, "devices": {"big": BIG}},
         [node("a", {}), resource_slice("a-1", [*FOUR, device("m", "mig")], nodeName="a")], 4),
        ({"hard": {"memory-of-devices": "25%"}, "devices": {"memory-of-devices": {"sum": "memory"}}},
         [node("a", {}), resource_slice("a-1", FOUR[:2], nodeName="a"), resource_slice("n-1", FOUR[:1], allNodes=True)],
         240 << 30),
        ({"hard": {"slices": "25%"}, "counts": {"slices": {"weights": {"example.com/mig": 1, GPU: 7}}}},
         [MAPPED, device_class("mig.example.com", "example.com/mig", "mig"),
          node("a", {}), resource_slice("a-1", [*FOUR[:1], device("m", "mig")], nodeName="a")], 8),
    ],
)  # fmt: skip
def test_devices_count_beside_what_is_allocatable_and_each_once(
    spec: Mapping[str, Any], objects: list[Object], amount: int
) -> None:
    assert measure(spec, *objects) == amount


@pytest.mark.parametrize(
    ("unready", "amount", "change"),
    [
        ("2026-12-01T11:56:00Z", 12, "2026-12-01T12:01:00Z"),
        ("2026-12-01T11:55:00Z", 4, None),
        ("2026-12-01T12:10:00Z", 12, "2026-12-01T12:15:00Z"),  # a clock that is ahead
        ("no time", 4, None),
    ],
)
def test_a_node_that_is_not_ready_counts_for_some_minutes(unready: str, amount: int, change: str | None) -> None:
    objects = node("a", {GPU: 8}, unready=unready), node("b", {GPU: 4})
    computed = compute(ONE_GPU, *objects)
    assert computed.capacities == {"gpus": {GPU: Capacity(amount)}}
    assert computed.next_change == (None if change is None else datetime.fromisoformat(change))
    assert compute(ONE_GPU, *objects, now=None).capacities == {"gpus": {GPU: Capacity(4)}}


def test_a_node_that_nothing_selects_changes_nothing_later() -> None:
    spec = {**ONE_GPU, "capacity": {"nodeSelector": {"matchLabels": {"pool": "gpu"}}, "notReadyFor": "1h"}}
    assert compute(spec, node("a", {GPU: 8}, unready="2026-12-01T11:56:00Z")).next_change is None
    labelled = node("a", {GPU: 8}, unready="2026-12-01T11:10:00Z", labels={"pool": "gpu"})
    assert compute(spec, labelled).next_change == NOW + timedelta(minutes=10)


SHAPE = {"labels": {"pool": "gpu"}, "allocatable": {"cpu": 8, GPU: 8}, "most": 3}


@pytest.mark.parametrize(
    ("capacity", "amount"),
    [
        ({"nodeShapes": True}, 25),
        ({"nodeShapes": True, "nodeSelector": {"matchLabels": {"pool": "gpu"}}}, 24),
        ({"nodeShapes": True, "nodeSelector": {"matchLabels": {"pool": "other"}}}, 0),
        ({"nodeShapes": True, "excludeTaints": ["spot"]}, 1),
        ({"excludeTaints": ["other"]}, 1),
    ],
)
def test_nodes_that_may_come_count_if_the_cap_says_so(capacity: Mapping[str, Any], amount: int) -> None:
    shape = {**SHAPE, "taints": [{"key": "spot", "effect": "NoSchedule"}]}
    policies = parse_cap({**ONE_GPU, "capacity": capacity}, shape)
    computed = create_state([node("a", {GPU: 1})]).capacities.compute(policies, NOW)
    assert computed.capacities == {"gpus": {GPU: Capacity(amount)}}


@pytest.mark.parametrize(
    ("known", "spec", "objects", "problem"),
    [
        ((kinds.SLICES, kinds.CLASSES), ONE_GPU, [], "nodes may not be listed"),
        ((kinds.NODES, kinds.SLICES), ONE_GPU, [node("a", {GPU: 1})], "deviceclasses may not be listed"),
        ((kinds.NODES,), {"hard": {"cpu": "50%"}}, [node("a", {"cpu": 1})], ""),
        ((kinds.NODES, kinds.CLASSES), BY_CLASS, [node("a", {GPU: 1})], "resourceslices may not be listed"),
        ((kinds.NODES, kinds.CLASSES), ONE_GPU, [node("a", {GPU: 1})], ""),
        (READ, BY_CLASS,
         [node("a", {GPU: 1}), PLAIN, resource_slice("a-1", FOUR, nodeName="a", count=2)],
         "a pool of devices of driver gpu.example.com lacks a ResourceSlice"),
        (READ, BY_CLASS,
         [node("a", {GPU: 1}), PLAIN,
          resource_slice("b-1", FOUR, nodeName="b", count=2)], ""),
        (READ, BY_CLASS,
         [node("a", {GPU: 1}), {"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"},
                                "spec": {"selectors": [{}]}}],
         "it is not known which devices a DeviceClass selects: DeviceClass gpu.example.com has a selector of"),
        (READ, BY_CLASS,
         [node("a", {GPU: 1}), PLAIN,
          resource_slice("a-1", [device("x", nodeSelector="a", nodeName=3)], perDeviceNodeSelection=True)],
         "a ResourceSlice of driver gpu.example.com cannot be read: "),
        (READ, ONE_GPU, [node("a", {GPU: "x"})], "a node has an invalid amount: "),
    ],
)  # fmt: skip
def test_a_capacity_is_unknown_if_something_that_decides_it_is(
    known: Sequence[str], spec: Mapping[str, Any], objects: list[Object], problem: str
) -> None:
    computed = create_state(objects, known).capacities.compute(parse_cap(spec), NOW)
    assert computed.problem.startswith(problem)
    assert bool(computed.problem) is bool(problem)
    assert bool(computed.capacities["gpus"]) is not bool(problem)


def test_a_state_that_no_watch_has_filled_has_no_capacity() -> None:
    computed = ClusterState().capacities.compute(parse_cap(ONE_GPU), NOW)
    assert computed == ComputedCapacities({"gpus": {}}, "the nodes of the cluster are not read")


def test_a_shape_without_a_number_has_no_capacity() -> None:
    policies = parse_cap({**ONE_GPU, "capacity": {"nodeShapes": True}}, SHAPE)
    (shape,) = policies.node_shapes
    unbounded = replace(policies, node_shapes=(msgspec.structs.replace(shape, most=None),))
    computed = create_state([]).capacities.compute(unbounded, NOW)
    assert (computed.capacities, "NodeShape big" in computed.problem) == ({"gpus": {}}, True)


def test_capacities_are_the_same_object_until_one_changes() -> None:
    state, policies = create_state([node("a", {GPU: 8})]), parse_cap(ONE_GPU)
    first = state.capacities.compute(policies, NOW)
    assert state.capacities.compute(policies, NOW + timedelta(days=1)) is first
    codec = state.get_codec(kinds.NODES)

    def put(name: str, amounts: Mapping[str, object], revision: int, **more: Any) -> None:
        written = node(name, amounts, **more)
        written["metadata"] |= {"uid": name, "resourceVersion": f"{revision}"}
        decoded = decode_node(json.dumps(written).encode())
        state.nodes.apply(Changed(codec.create_record(decoded), revision))

    put("b", {"cpu": 1}, 10)
    assert state.capacities.compute(policies, NOW).capacities is first.capacities
    put("b", {GPU: 1}, 11)
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(9)}}
    put("b", {GPU: 1}, 12, unready="2026-12-01T11:59:00Z")
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(9)}}
    assert state.capacities.compute(policies, NOW + timedelta(hours=1)).capacities == {"gpus": {GPU: Capacity(8)}}
    state.nodes.apply(Replaced((), 20))
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(0)}}


def test_a_change_of_slices_or_classes_changes_a_capacity() -> None:
    state, policies = create_state([node("a", {GPU: 2}), FOUR_OF_A]), parse_cap(ONE_GPU)
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(2)}}

    def put(resource: str, written: Object, revision: int) -> None:
        written = written | {"metadata": written["metadata"] | {"uid": "u", "resourceVersion": f"{revision}"}}
        decoded = msgspec.json.decode(json.dumps(written), type=kinds.KINDS[written["kind"]].type)
        state.get_store(resource).apply(Changed(state.get_codec(resource).create_record(decoded), revision))

    put(kinds.CLASSES, MAPPED, 10)
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(4)}}
    put(kinds.SLICES, resource_slice("a-1", FOUR[:3], nodeName="a"), 11)
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(3)}}
    put(kinds.CLASSES, device_class("gpu.example.com", GPU, "mig"), 12)
    assert state.capacities.compute(policies, NOW).capacities == {"gpus": {GPU: Capacity(2)}}


def test_capacities_are_those_of_other_times_until_a_node_counts_no_longer() -> None:
    unready = [node("a", {GPU: 8}, unready="2026-12-01T11:50:00Z"), node("b", {GPU: 8}, unready="2026-12-01T11:59:00Z")]
    computed = compute(ONE_GPU, *unready)
    times = {minutes: computed.are_those_of(NOW + timedelta(minutes=minutes)) for minutes in (-6, -5, 0, 3, 4)}
    assert times == {-6: False, -5: True, 0: True, 3: True, 4: False}
    assert not computed.are_those_of(None)
    assert compute(ONE_GPU, *unready, now=None).are_those_of(NOW + timedelta(minutes=4))
    assert not compute(ONE_GPU, *unready, now=None).are_those_of(NOW + timedelta(minutes=3))


def test_of_several_caps_the_first_change_to_come_and_the_last_one_count() -> None:
    """Let a node that is not ready count for 5 minutes under one cap, for 20 under another, for 1 under a third."""
    capacities = [{}, {"capacity": {"notReadyFor": "20m"}}, {"capacity": {"notReadyFor": "1m"}}]
    caps = (
        msgspec.structs.replace(parse_cap({**ONE_GPU, **each}).caps[0], name=f"{n}")
        for n, each in enumerate(capacities)
    )
    unready = [node("a", {GPU: 8}, unready="2026-12-01T11:58:00Z"), node("b", {GPU: 8}, unready="2026-12-01T11:50:00Z")]
    computed = create_state(unready).capacities.compute(replace(parse_cap(ONE_GPU), caps=tuple(caps)), NOW)
    assert {name: found[GPU].amount for name, found in computed.capacities.items()} == {"0": 8, "1": 16, "2": 0}
    assert computed.next_change == NOW + timedelta(minutes=3)
    assert computed.last_change == NOW - timedelta(minutes=1)


def test_the_caps_of_a_state_have_the_limits_of_its_capacity() -> None:
    state, policies = create_state([node("a", {GPU: 8})]), parse_cap({**ONE_GPU, "soft": {GPU: "12.5%"}})
    caps = state.index_caps(policies, NOW)
    assert state.index_caps(policies, NOW + timedelta(minutes=1)) is caps
    assert state.get_cap_sources() is state.get_cap_sources()
    assert state.index_caps(policies, NOW) is caps
    (cap,) = caps.list_caps()
    assert (cap.hard, cap.soft, cap.describe_soft(GPU)) == ({GPU: 2}, {GPU: 1}, "1 (12.5% of 8)")
    assert list(caps.list_unmeasured()) == []
    unread = create_state([], (kinds.CLASSES,)).index_caps(policies, NOW)
    assert list(unread.list_unmeasured()) == [f"cap gpus was not evaluated for {GPU}: nodes may not be listed"]


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({"hard": {GPU: 1, "cpu": 4}}, (False, False)),
        ({"hard": {GPU: 1, "cpu": "25%"}}, (True, True)),
        ({"hard": {"cpu": "25%"}}, (True, False)),
        ({"soft": {"a.deviceclass.resource.k8s.io/devices": "25%"}}, (True, True)),
        ({"hard": {"big": 4}, "devices": {"big": BIG}}, (False, True)),
    ],
)
def test_policies_need_nodes_and_slices_for_percentages(spec: Mapping[str, Any], needs: tuple[bool, bool]) -> None:
    policies = parse_cap(spec)
    assert (policies.needs_nodes, policies.needs_slices) == needs


def test_a_heartbeat_of_a_node_that_is_not_ready_changes_only_the_revision() -> None:
    state = create_state([node("a", {GPU: 8}, unready="2026-12-01T11:59:00Z")])
    before = state.nodes.generation
    written = node("a", {GPU: 8}, unready="2026-12-01T11:59:00Z")
    written["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-12-01T12:30:00Z"
    written["metadata"] |= {"uid": "a", "resourceVersion": "9"}
    record = state.get_codec(kinds.NODES).create_record(decode_node(json.dumps(written).encode()))
    state.nodes.apply(Changed(record, 9))
    assert (state.nodes.generation, state.nodes.revision) == (before, 9)


_DRAWN_NODES = st.lists(
    st.tuples(
        st.integers(0, 8),  # allocatable
        st.integers(0, 8),  # devices
        st.sampled_from(["gpu", "cpu"]),  # pool
        st.booleans(),  # under maintenance
        st.none() | st.integers(0, 10),  # minutes since which it is not ready
    ),
    max_size=6,
)


@given(_DRAWN_NODES, st.integers(0, 3), st.sampled_from([None, "gpu"]), st.booleans())
def test_a_capacity_is_the_plain_sum(
    drawn: list[tuple[int, int, str, bool, int | None]],
    shared: int,
    pool: str | None,
    excludes: bool,  # noqa: FBT001  # drawn
) -> None:
    objects = [MAPPED]
    expected, is_reached = 0, False
    for number, (allocatable, published, own_pool, is_tainted, minutes) in enumerate(drawn):
        more: Object = {"labels": {"pool": own_pool}, "taints": ["maintenance"] if is_tainted else []}
        if minutes is not None:
            more["unready"] = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        objects.append(node(f"n{number}", {GPU: allocatable}, **more))
        devices = [device(f"d{each}") for each in range(published)]
        objects.append(resource_slice(f"n{number}-1", devices, nodeName=f"n{number}"))
        counts = pool in (None, own_pool) and not (excludes and is_tainted) and (minutes is None or minutes < 5)
        expected += max(allocatable, published) if counts else 0
        is_reached = is_reached or counts
    objects.append(resource_slice("net-1", [device(f"s{each}") for each in range(shared)], allNodes=True))
    capacity: Object = {"notReadyFor": "5m"}
    capacity |= {"nodeSelector": {"matchLabels": {"pool": pool}}} if pool else {}
    capacity |= {"excludeTaints": ["maintenance"]} if excludes else {}
    assert measure({**ONE_GPU, "capacity": capacity}, *objects) == expected + (shared if is_reached else 0)
