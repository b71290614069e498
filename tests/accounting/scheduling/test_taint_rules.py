"""DeviceTaintRules: the devices that each selector taints, by version, and whether a pod waits for them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion, select_version
from tallygate.accounting.scheduling.device_shortfalls import find_device_shortfalls
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.prediction import find_unresolvable_nodes
from tallygate.accounting.scheduling.remedies import find_remedies
from tallygate.objects.devices import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceSlice,
)
from tallygate.objects.meta import ObjectMeta
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import DRIVER, claim, device_class, device_slice, request, taint_rule
from tests.accounting.scheduling.product_scheduler import create_full_cluster
from tests.effort import examples

Json = dict[str, Any]
_NIC = device_class("nic", 'device.driver == "nic.example.com"')
_OBJECTS: Sequence[Json] = (
    device_class(),
    _NIC,
    device_slice("a", ["d0", "d1"]),
    device_slice("b", ["d0"]),
    device_slice("a", ["d0"], driver="nic.example.com") | {"metadata": {"name": "slice-nic"}},
)
_POD = pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


def _create(*objects: Json, version: KubernetesVersion = DEFAULT_VERSION) -> Cluster:
    return create_full_cluster([node("a"), node("b")], [], [*_OBJECTS, *objects], version)


def _find_feasible(cluster: Cluster) -> set[str]:
    feasible = run_filters(IncomingPod.from_pod(decode_pod(_POD)), cluster).feasible
    return {cluster.nodes.get_name(each) for each in feasible.tolist()}


@pytest.mark.parametrize(
    ("selector", "wanted", "expected"),
    [
        pytest.param({}, request(), set(), id="an empty selector selects every device"),
        pytest.param(None, request(), {"a", "b"}, id="a rule without a selector selects none"),
        pytest.param({"driver": DRIVER}, request(), set(), id="the devices of a driver"),
        pytest.param({"driver": "nic.example.com"}, request(), {"a", "b"}, id="the devices of another driver"),
        pytest.param({"driver": DRIVER}, request(of="nic"), {"a"}, id="another driver's devices stay free"),
        pytest.param({"pool": "a"}, request(), {"b"}, id="the pools of one name"),
        pytest.param({"pool": "a"}, request(of="nic"), set(), id="the pools of one name, of all drivers"),
        pytest.param({"device": "d0"}, request(), {"a"}, id="the devices of one name, in all pools"),
        pytest.param({"pool": "b", "device": "d0"}, request(), {"a"}, id="one device of a pool"),
        pytest.param({"driver": DRIVER, "pool": "a", "device": "d1"}, request(count=2), set(), id="one device"),
        pytest.param({"driver": DRIVER, "pool": "a", "device": "d7"}, request(count=2), {"a"}, id="no such device"),
        pytest.param({"driver": "", "pool": ""}, request(), {"a", "b"}, id="an empty name is one that no pool has"),
    ],
)
def test_a_rule_taints_the_devices_that_its_selector_matches(
    selector: Json | None, wanted: Json, expected: set[str]
) -> None:
    assert _find_feasible(_create(taint_rule("r", selector), claim("c", wanted))) == expected


@pytest.mark.parametrize(
    ("taint", "tolerations", "is_prevented"),
    [
        pytest.param({"effect": "NoSchedule"}, [], True, id="NoSchedule"),
        pytest.param({"effect": "NoExecute"}, [], True, id="NoExecute"),
        pytest.param({"effect": "None"}, [], False, id="None"),
        pytest.param({"effect": "Later"}, [], False, id="an effect that no version knows"),
        pytest.param({"effect": "NoExecute"}, [{"operator": "Exists"}], False, id="every taint is tolerated"),
        pytest.param({"effect": "NoExecute"}, [{"key": "k", "operator": "Exists"}], False, id="the key is tolerated"),
        pytest.param({"effect": "NoExecute"}, [{"key": "k", "value": "w"}], True, id="another value is tolerated"),
        pytest.param(
            {"effect": "NoExecute"},
            [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            True,
            id="another effect is tolerated",
        ),
    ],
)
def test_the_effect_and_the_tolerations_decide(taint: Json, tolerations: Sequence[Json], *, is_prevented: bool) -> None:
    rule = taint_rule("r", {}, key="k", value="v", **taint)
    cluster = _create(rule, claim("c", request(tolerations=list(tolerations))))
    assert _find_feasible(cluster) == (set() if is_prevented else {"a", "b"})


def test_a_scheduler_of_1_36_reads_no_rules() -> None:
    assert _find_feasible(_create(taint_rule("r", {}), claim("c"), version=select_version(36))) == {"a", "b"}


def test_a_tainted_device_may_become_free_and_one_that_is_not_there_may_not() -> None:
    for objects, never in (([claim("c")], set()), ([claim("c", request(count=2))], {"b"})):
        cluster = _create(taint_rule("r", {}), *objects)
        incoming = IncomingPod.from_pod(decode_pod(_POD))
        unresolvable = find_unresolvable_nodes(incoming, cluster, cluster.nodes.get_indices())
        assert {cluster.nodes.get_name(each) for each in unresolvable} == never


def test_reasons_and_remedies_name_the_rule() -> None:
    cluster = _create(taint_rule("upkeep", {"pool": "a"}), claim("c", request(count=2)))
    incoming = IncomingPod.from_pod(decode_pod(_POD))
    (shortfall,) = find_device_shortfalls(incoming, cluster, 0)
    assert "pool gpu.example.com/a: 2 devices, 2 have the taint k:NoSchedule of DeviceTaintRule upkeep, 0 free" in str(
        shortfall
    )
    remedies = find_remedies(incoming, cluster, cluster.nodes.get_indices())
    assert ("delete DeviceTaintRule upkeep", ("a",)) in [(each.change, each.nodes) for each in remedies]
    assert _find_feasible(cluster) == set()


def test_all_rules_are_named_where_none_of_them_suffices() -> None:
    cluster = _create(taint_rule("one", {}), taint_rule("two", {"driver": DRIVER}), claim("c"))
    incoming = IncomingPod.from_pod(decode_pod(_POD))
    changes = [each.change for each in find_remedies(incoming, cluster, cluster.nodes.get_indices())]
    assert [each for each in changes if "DeviceTaintRule" in each] == ["delete DeviceTaintRules one, two"]


_SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from([DRIVER, "nic.example.com"]),
        "pool": st.sampled_from(["a", "b"]),
        "device": st.sampled_from(["d0", "d1"]),
    },
)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["rule", "slice"]),
        st.integers(0, 4),
        st.none() | st.tuples(_SELECTORS, st.sampled_from(["NoSchedule", "None"])),
    ),
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(_STEPS)
def test_changes_of_rules_and_slices_give_the_devices_of_the_final_objects(steps: list[tuple[str, int, Any]]) -> None:
    """Read the feasible nodes after each step, so that allocators and columns exist before the next change."""
    cluster, rules, deleted = _create(claim("c")), dict[str, Json](), set[int]()
    assert cluster.devices is not None
    slices = _OBJECTS[2:]
    for kind, number, change in steps:
        if kind == "rule":
            name = f"r{number}"
            rules.pop(name, None)
            if change is None:
                cluster.devices.remove(DeviceTaintRule(ObjectMeta(name=name)))
            else:
                rules[name] = taint_rule(name, change[0], effect=change[1])
                spec = DeviceTaintRuleSpec(DeviceTaintSelector(**change[0]), DeviceTaint("k", "", change[1]))
                cluster.devices.put(DeviceTaintRule(ObjectMeta(name=name), spec))
        else:
            _put_or_remove(cluster, slices[number % len(slices)], is_removed=change is None)
            (deleted.add if change is None else deleted.discard)(number % len(slices))
        left = [each for index, each in enumerate(slices) if index not in deleted]
        objects = [*_OBJECTS[:2], *left, *rules.values(), claim("c")]
        assert _find_feasible(cluster) == _find_feasible(create_full_cluster([node("a"), node("b")], [], objects))


def _put_or_remove(cluster: Cluster, published: Json, *, is_removed: bool) -> None:
    assert cluster.devices is not None
    decoded = msgspec.json.decode(msgspec.json.encode(published), type=ResourceSlice)
    if is_removed:
        cluster.devices.remove(decoded)
    else:
        cluster.devices.put(decoded)
