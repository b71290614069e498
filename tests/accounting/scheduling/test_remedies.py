"""Remedies for a pod that fits nowhere: every reported change and eviction makes the pod fit."""

import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.evictions import EvictionOption, find_eviction_options
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_diagnosis import find_scattered_amounts
from tallygate.accounting.scheduling.plugins.node_resources_fit import sort_by_shortfall
from tallygate.accounting.scheduling.prediction import find_unresolvable_nodes
from tallygate.accounting.scheduling.remedies import Remedy, find_remedies
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.effort import examples

_BANANA = "example.com_banana"
_ML = {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}
_CORDONED = {
    "unschedulable": True,
    "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
}
Object = dict[str, Any]


def _remedies(cluster: Cluster, written: Object) -> tuple[Remedy, ...]:
    return find_remedies(IncomingPod.from_pod(decode_pod(written)), cluster, cluster.nodes.get_indices())


def _find_evictions(cluster: Cluster, written: Object, *protected: str) -> tuple[EvictionOption, ...]:
    incoming = IncomingPod.from_pod(decode_pod(written))
    resolvable = run_filters(incoming, cluster).resolvable
    never = find_unresolvable_nodes(incoming, cluster, resolvable)
    nodes = sort_by_shortfall(incoming, cluster, [each for each in resolvable.tolist() if each not in never])
    return find_eviction_options(incoming, cluster, nodes, protected)


def _list_names(found: tuple[EvictionOption, ...]) -> list[tuple[str, list[str]]]:
    return [(each.node, [one.name for one in each.pods]) for each in found]


def test_a_taint_and_a_cordon_have_different_remedies() -> None:
    cluster = create_cluster([node("a") | {"spec": _ML}, node("b") | {"spec": _CORDONED}])
    assert _remedies(cluster, pod()) == (
        Remedy("tolerate dedicated=ml:NoSchedule", ("a",)),
        Remedy("uncordon the node", ("b",)),
    )


def test_two_changes_are_combined_where_no_single_change_helps() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "3"}) | {"spec": _ML}])
    (found,) = _remedies(cluster, pod(requests={_BANANA: "5"}))
    assert found == Remedy("2 more example.com/banana on the node and tolerate dedicated=ml:NoSchedule", ("a",))


def test_three_changes_are_not_combined() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "3"}) | {"spec": _ML}])
    assert _remedies(cluster, pod(requests={_BANANA: "5"}, nodeSelector={"disk": "ssd"})) == ()


def test_the_node_with_the_smallest_shortfall_comes_first() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "1"}), node("b", **{_BANANA: "4"}), node("c")])
    assert [each.change for each in _remedies(cluster, pod(requests={_BANANA: "5"}))] == [
        "1 more example.com/banana on the node",
        "4 more example.com/banana on the node",
        "5 more example.com/banana on the node",
    ]


def test_one_more_node_like_the_closest_is_tried_where_several_nodes_lack_amounts() -> None:
    used = [pod(f"p-{name}", on=name, requests={_BANANA: amount}) for name, amount in (("a", "6"), ("b", "5"))]
    cluster = create_cluster([node("a", **{_BANANA: "8"}), node("b", **{_BANANA: "8"}), node("c")], used)
    assert _remedies(cluster, pod(requests={_BANANA: "4"})) == (Remedy("one more node like b", ()),)


def test_one_more_node_beside_another_change() -> None:
    used = [pod(f"p-{name}", on=name, requests={_BANANA: "6"}) for name in "ab"]
    cluster = create_cluster([node(name, **{_BANANA: "8"}) | {"spec": _ML} for name in "ab"], used)
    (found,) = _remedies(cluster, pod(requests={_BANANA: "4"}))
    assert found == Remedy("one more node like a and tolerate dedicated=ml:NoSchedule", ())


def test_a_hundred_nodes_that_are_too_small_give_one_remedy() -> None:
    cluster = create_cluster([node(f"n{number:03}", **{_BANANA: "2"}) for number in range(100)])
    assert _remedies(cluster, pod(requests={_BANANA: "10"})) == (
        Remedy("a node like n000 with 8 more example.com/banana", ()),
    )


def test_remedies_are_sorted_by_their_cost() -> None:
    nodes = [node("a", **{_BANANA: "1"}), node("b", **{_BANANA: "9"}) | {"spec": _CORDONED}]
    cluster = create_cluster([*nodes, node("c", **{_BANANA: "9"}) | {"spec": _ML}])
    assert [each.change for each in _remedies(cluster, pod(requests={_BANANA: "5"}))] == [
        "tolerate dedicated=ml:NoSchedule",
        "uncordon the node",
        "4 more example.com/banana on the node",
    ]


def test_amounts_that_are_scattered_over_nodes_are_summed() -> None:
    used = [pod(f"p-{name}", on=name, requests={_BANANA: "6"}) for name in "abcde"]
    nodes = [node(name, **{_BANANA: "8"}) for name in "abcd"]
    cluster = create_cluster([*nodes, node("e", **{_BANANA: "8"}) | {"spec": _ML}], used)

    def find(amount: str, **fields: Any) -> list[tuple[int, int, bool]]:
        incoming = IncomingPod.from_pod(decode_pod(pod(requests={_BANANA: amount}, **fields)))
        return [(each.free, each.most, each.is_restricted) for each in find_scattered_amounts(incoming, cluster)]

    assert find("4") == [(8, 2, True)]
    assert find("8") == [(8, 2, True)]
    assert find("9") == []
    assert find("2") == []
    assert find("9", tolerations=[{"operator": "Exists"}]) == [(10, 2, False)]


def test_only_eviction_helps_against_the_anti_affinity_of_another_pod() -> None:
    """No change of the pod helps."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = create_cluster([node("a")], [pod("shy", on="a", affinity=anti_affinity)])
    written = pod(labels={"app": "x"})
    assert _remedies(cluster, written) == ()
    assert _list_names(_find_evictions(cluster, written)) == [("a", ["shy"])]


def test_an_eviction_names_as_few_pods_as_possible() -> None:
    """Keep the pods with the smallest share of the short resource."""
    pods = [pod(f"p{each}", on="a", requests={_BANANA: f"{each}"}) for each in (1, 2, 3)]
    cluster = create_cluster([node("a", **{_BANANA: "6"})], pods)
    assert _list_names(_find_evictions(cluster, pod(requests={_BANANA: "3"}))) == [("a", ["p3"])]


def test_pods_of_a_lower_priority_are_evicted_first() -> None:
    pods = [
        pod("dear", on="a", requests={_BANANA: "3"}, priority=5),
        pod("cheap", on="a", requests={_BANANA: "2"}, priority=1),
    ]
    cluster = create_cluster([node("a", **{_BANANA: "5"})], pods)
    assert _list_names(_find_evictions(cluster, pod(requests={_BANANA: "2"}))) == [("a", ["cheap"])]


def test_protected_pods_are_not_evicted() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "2"})], [pod("p1", on="a", requests={_BANANA: "2"})])
    assert _list_names(_find_evictions(cluster, pod(requests={_BANANA: "1"}))) == [("a", ["p1"])]
    assert _find_evictions(cluster, pod(requests={_BANANA: "1"}), "uid-p1") == ()


def test_no_pod_is_evicted_from_a_node_that_is_too_small() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "2"})], [pod("p1", on="a", requests={_BANANA: "2"})])
    assert _find_evictions(cluster, pod(requests={_BANANA: "3"})) == ()


_AMOUNTS = st.integers(0, 5)


@given(
    st.lists(_AMOUNTS, min_size=1, max_size=4),
    st.lists(st.tuples(_AMOUNTS, _AMOUNTS, st.integers(0, 3)), max_size=10),
    _AMOUNTS,
)
@settings(max_examples=examples(100), deadline=None)
def test_the_pod_fits_after_all_evictions_and_not_before(
    capacities: list[int], existing: list[tuple[int, int, int]], requested: int
) -> None:
    """Keep each of the pods in turn: then the pod does not fit."""
    nodes = [node(f"n{number}", **{_BANANA: f"{room}"}) for number, room in enumerate(capacities)]
    pods = [
        pod(f"p{number}", on=f"n{at % len(capacities)}", requests={_BANANA: f"{amount}"}, priority=priority)
        for number, (at, amount, priority) in enumerate(existing)
    ]
    written = pod("new", requests={_BANANA: f"{requested}"})
    incoming = IncomingPod.from_pod(decode_pod(written))
    for each in _find_evictions(create_cluster(nodes, pods), written):
        for kept in (*each.pods, None):
            evicted = {one.name for one in each.pods if one is not kept}
            remaining = create_cluster(nodes, [one for one in pods if one["metadata"]["name"] not in evicted])
            index = remaining.nodes.find_index(each.node)
            assert (index in run_filters(incoming, remaining).feasible) is (kept is None)


def _check_new_node(change: str, incoming: IncomingPod, capacities: list[int]) -> None:
    """Check that the new node fits the pod, and a node with a unit less than the added amount does not."""
    match = re.fullmatch(r"(?:one more|a) node like n(\d+)(?: with (\d+) more example.com/banana)?", change)
    assert match is not None, change
    room, more = capacities[int(match[1])], int(match[2] or 0)
    sizes = [(room + more, True), *([(room + more - 1, False)] if more else [])]
    for size, fits in sizes:
        alone = create_cluster([node("new-node", **{_BANANA: f"{size}"})], [])
        assert bool(len(run_filters(replace(incoming), alone).feasible)) is fits


@given(st.lists(_AMOUNTS, min_size=1, max_size=4), st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=6), _AMOUNTS)
@example([1, 0, 0, 0], [(0, 1)], 2)  # a new node like one that is in use has all of its amounts
@example([0, 0, 0, 0], [], 1)  # where more nodes lack the amount than a remedy lists, one larger node is named
@settings(max_examples=examples(50), deadline=None)
def test_the_pod_fits_a_node_with_the_additional_amount(
    capacities: list[int], existing: list[tuple[int, int]], requested: int
) -> None:
    """Check also that a unit less is not enough."""
    pods = [
        pod(f"p{number}", on=f"n{at % len(capacities)}", requests={_BANANA: f"{amount}"})
        for number, (at, amount) in enumerate(existing)
    ]
    written = pod("new", requests={_BANANA: f"{requested}"})
    incoming = IncomingPod.from_pod(decode_pod(written))
    cluster = create_cluster(
        [node(f"n{number}", **{_BANANA: f"{room}"}) for number, room in enumerate(capacities)], pods
    )
    if len(run_filters(incoming, cluster).feasible):
        return
    found = _remedies(cluster, written)
    if "a node like " in found[0].change or "one more node like " in found[0].change:
        _check_new_node(found[0].change, incoming, capacities)
        return
    assert {name for each in found for name in each.nodes} == {f"n{number}" for number in range(len(capacities))}
    for each in found:
        more = int(each.change.split()[0])
        for name in each.nodes:
            room = capacities[int(name[1:])] + more
            for size, fits in ((room, True), (room - 1, False)):
                larger = create_cluster([node(name, **{_BANANA: f"{size}"})], pods)
                assert bool(len(run_filters(replace(incoming), larger).feasible)) is fits
