"""What would help a pod that fits nowhere: every change and every leaving was tried, and is true."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins.node_resources_fit import sort_by_shortfall
from webhook.accounting.scheduling.prediction import find_unresolvable_nodes
from webhook.accounting.scheduling.remedies import EvictionOption, Remedy, find_eviction_options, find_remedies

_BANANA = "example.com_banana"
_ML = {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}
_CLOSED = {
    "unschedulable": True,
    "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
}
Object = dict[str, Any]


def _remedies(cluster: Cluster, written: Object) -> tuple[Remedy, ...]:
    return find_remedies(IncomingPod.from_pod(pod_of(written)), cluster, cluster.nodes.get_indices())


def _leaving(cluster: Cluster, written: Object, *staying: str) -> tuple[EvictionOption, ...]:
    incoming = IncomingPod.from_pod(pod_of(written))
    resolvable = run_filters(incoming, cluster).resolvable
    never = find_unresolvable_nodes(incoming, cluster, resolvable)
    nodes = sort_by_shortfall(incoming, cluster, [each for each in resolvable.tolist() if each not in never])
    return find_eviction_options(incoming, cluster, nodes, staying)


def _who(found: tuple[EvictionOption, ...]) -> list[tuple[str, list[str]]]:
    return [(each.node, [one.name for one in each.pods]) for each in found]


def test_a_taint_and_a_closed_node_are_told_apart() -> None:
    cluster = cluster_of([node("a") | {"spec": _ML}, node("b") | {"spec": _CLOSED}])
    assert _remedies(cluster, pod()) == (
        Remedy("tolerate dedicated=ml:NoSchedule", ("a",)),
        Remedy("uncordon the node", ("b",)),
    )


def test_two_changes_are_tried_together_where_no_single_one_helps() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "3"}) | {"spec": _ML}])
    (found,) = _remedies(cluster, pod(asks={_BANANA: "5"}))
    assert found == Remedy("2 more example.com/banana on the node and tolerate dedicated=ml:NoSchedule", ("a",))


def test_three_changes_are_not_thought_of() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "3"}) | {"spec": _ML}])
    assert _remedies(cluster, pod(asks={_BANANA: "5"}, nodeSelector={"disk": "ssd"})) == ()


def test_of_resources_the_node_that_lacks_least_comes_first() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "1"}), node("b", **{_BANANA: "4"}), node("c")])
    assert [each.change for each in _remedies(cluster, pod(asks={_BANANA: "5"}))] == [
        "1 more example.com/banana on the node",
        "4 more example.com/banana on the node",
        "5 more example.com/banana on the node",
    ]


def test_a_pod_that_an_other_keeps_away_is_helped_by_its_leaving_only() -> None:
    """What another says of it is nothing that the pod could change."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = cluster_of([node("a")], [pod("shy", on="a", affinity=shy)])
    written = pod(labels={"app": "x"})
    assert _remedies(cluster, written) == ()
    assert _who(_leaving(cluster, written)) == [("a", ["shy"])]


def test_as_few_leave_as_must() -> None:
    """Who has least of what is short stays first."""
    pods = [pod(f"p{each}", on="a", asks={_BANANA: f"{each}"}) for each in (1, 2, 3)]
    cluster = cluster_of([node("a", **{_BANANA: "6"})], pods)
    assert _who(_leaving(cluster, pod(asks={_BANANA: "3"}))) == [("a", ["p3"])]


def test_the_less_important_leave_first() -> None:
    pods = [
        pod("dear", on="a", asks={_BANANA: "3"}, priority=5),
        pod("cheap", on="a", asks={_BANANA: "2"}, priority=1),
    ]
    cluster = cluster_of([node("a", **{_BANANA: "5"})], pods)
    assert _who(_leaving(cluster, pod(asks={_BANANA: "2"}))) == [("a", ["cheap"])]


def test_who_is_to_stay_stays() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "2"})], [pod("p1", on="a", asks={_BANANA: "2"})])
    assert _who(_leaving(cluster, pod(asks={_BANANA: "1"}))) == [("a", ["p1"])]
    assert _leaving(cluster, pod(asks={_BANANA: "1"}), "uid-p1") == ()


def test_nobody_leaves_a_node_that_is_too_small() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "2"})], [pod("p1", on="a", asks={_BANANA: "2"})])
    assert _leaving(cluster, pod(asks={_BANANA: "3"})) == ()


_AMOUNTS = st.integers(0, 5)


@given(
    st.lists(_AMOUNTS, min_size=1, max_size=4),
    st.lists(st.tuples(_AMOUNTS, _AMOUNTS, st.integers(0, 3)), max_size=10),
    _AMOUNTS,
)
@settings(max_examples=examples(100), deadline=None)
def test_once_they_have_left_the_pod_fits_and_not_before(
    rooms: list[int], there: list[tuple[int, int, int]], asked: int
) -> None:
    """Without any one of them leaving it does not."""
    nodes = [node(f"n{number}", **{_BANANA: f"{room}"}) for number, room in enumerate(rooms)]
    pods = [
        pod(f"p{number}", on=f"n{at % len(rooms)}", asks={_BANANA: f"{holds}"}, priority=priority)
        for number, (at, holds, priority) in enumerate(there)
    ]
    written = pod("new", asks={_BANANA: f"{asked}"})
    incoming = IncomingPod.from_pod(pod_of(written))
    for each in _leaving(cluster_of(nodes, pods), written):
        for spared in (*each.pods, None):
            gone = {one.name for one in each.pods if one is not spared}
            left = cluster_of(nodes, [one for one in pods if one["metadata"]["name"] not in gone])
            place = left.nodes.find_index(each.node)
            assert (place in run_filters(incoming, left).feasible) is (spared is None)


@given(st.lists(_AMOUNTS, min_size=1, max_size=4), st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=6), _AMOUNTS)
@settings(max_examples=examples(50), deadline=None)
def test_with_so_much_more_the_node_takes_the_pod(rooms: list[int], there: list[tuple[int, int]], asked: int) -> None:
    """And with one less it does not."""
    pods = [
        pod(f"p{number}", on=f"n{at % len(rooms)}", asks={_BANANA: f"{holds}"})
        for number, (at, holds) in enumerate(there)
    ]
    written = pod("new", asks={_BANANA: f"{asked}"})
    incoming = IncomingPod.from_pod(pod_of(written))
    cluster = cluster_of([node(f"n{number}", **{_BANANA: f"{room}"}) for number, room in enumerate(rooms)], pods)
    if len(run_filters(incoming, cluster).feasible):
        return
    found = _remedies(cluster, written)
    assert {name for each in found for name in each.nodes} == {f"n{number}" for number in range(len(rooms))}
    for each in found:
        more = int(each.change.split()[0])
        for name in each.nodes:
            room = rooms[int(name[1:])] + more
            for size, fits in ((room, True), (room - 1, False)):
                larger = cluster_of([node(name, **{_BANANA: f"{size}"})], pods)
                assert bool(len(run_filters(replace(incoming), larger).feasible)) is fits
