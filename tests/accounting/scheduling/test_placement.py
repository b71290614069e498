"""How many copies of a pod find room, and where they go."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import place, place_copies
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.scheduling.diagnosis import format_fit_error
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.placement import PlacementSession, is_independent, open_placement_session
from webhook.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from webhook.objects.scheduling import SchedulingPod

_GPU = "nvidia.com_gpu"


def _names(cluster: Cluster, places: tuple[int, ...]) -> list[str]:
    return [cluster.nodes.get_name(each) for each in places]


def _count(wanted: SchedulingPod, cluster: Cluster) -> int:
    return compute_remaining_capacity(IncomingPod.from_pod(wanted, cluster.priority_classes), cluster).total


def test_copies_go_one_by_one_where_most_is_left() -> None:
    cluster = cluster_of([node("large", cpu="8", memory="8Gi"), node("small", cpu="4", memory="4Gi")])
    room = place_copies(pod_of(pod(asks={"cpu": "2", "memory": "2Gi"})), cluster, 9)
    assert _names(cluster, room.nodes) == ["large", "large", "small", "large", "large", "small"]
    assert room.unplaced is not None
    assert format_fit_error(room.unplaced) == "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."


def test_the_cluster_is_as_before_afterwards() -> None:
    cluster = cluster_of([node("n", cpu="8")], [pod("old", on="n", asks={"cpu": "1"})])
    before = cluster.nodes.get_used(0), cluster.nodes.pods[0], len(cluster), len(cluster.groups)
    place_copies(pod_of(pod(asks={"cpu": "1"})), cluster, 5)
    assert (cluster.nodes.get_used(0), cluster.nodes.pods[0], len(cluster), len(cluster.groups)) == before


def test_the_cluster_is_as_before_after_a_crash() -> None:
    cluster = cluster_of([node("n", cpu="8")])

    def crash(visit: PlacementSession) -> None:
        place(visit, pod_of(pod(asks={"cpu": "1"})), cluster, 3)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"), open_placement_session(cluster) as visit:
        crash(visit)
    assert (len(cluster), cluster.nodes.pods[0]) == (0, 0)


def test_one_visit_settles_several_pods_one_after_the_other() -> None:
    cluster = cluster_of([node("n", cpu="8", **{_GPU: "3"})])
    with open_placement_session(cluster) as visit:
        assert len(place(visit, pod_of(pod("a", asks={_GPU: "2"})), cluster, 1).nodes) == 1
        assert len(place(visit, pod_of(pod("b", asks={_GPU: "1"})), cluster, 5).nodes) == 1


def test_a_host_port_is_taken_once_a_node() -> None:
    cluster = cluster_of([node("a"), node("b")])
    assert _count(pod_of(pod(ports=[{"containerPort": 80, "hostPort": 80}])), cluster) == 2


def test_pods_that_ask_for_nothing_fill_the_places_for_pods() -> None:
    cluster = cluster_of([node("a"), node("b", pods="3")], [pod("old", on="a")])
    assert _count(pod_of(pod()), cluster) == 12


def test_copies_that_shun_each_other_are_counted_one_by_one() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    shunning = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = cluster_of([node(name, cpu="8") for name in "abc"])
    written = pod(labels={"app": "a"}, asks={"cpu": "1"}, affinity=shunning)
    assert not is_independent(IncomingPod.from_pod(pod_of(written)))
    assert _count(pod_of(written), cluster) == 3


@pytest.mark.parametrize("asked", ["10E", "9223372036854775807", "1e30"])
def test_asking_for_more_than_fits_in_64_bits_finds_no_room(asked: str) -> None:
    """kube-scheduler counts 10E as nothing, and places the pod."""
    cluster = cluster_of([node("n", cpu="8", **{_GPU: "8"})])
    wanted = pod_of(pod(asks={_GPU: asked}))
    assert (_count(wanted, cluster), place_copies(wanted, cluster, 2).nodes) == (0, ())


def test_what_does_not_fit_in_64_bits_finds_room_where_there_is_as_much() -> None:
    cluster = cluster_of([node("n", **{_GPU: "100E"})])
    assert _count(pod_of(pod(asks={_GPU: "30E"})), cluster) == 3


def test_a_node_promised_to_a_pod_of_the_same_priority_has_less_room() -> None:
    promised = pod("waiting", asks={"cpu": "3"}) | {"status": {"nominatedNodeName": "n"}}
    cluster = cluster_of([node("n", cpu="8")], [promised])
    assert _count(pod_of(pod(asks={"cpu": "1"})), cluster) == 5
    assert _count(pod_of(pod(asks={"cpu": "1"}, priority=1)), cluster) == 8


_AMOUNT = st.integers(0, 5).map(str)
_PODS = st.builds(lambda cpu, gpu: {"cpu": cpu, _GPU: gpu}, _AMOUNT, _AMOUNT)


@given(nodes=st.lists(_PODS, max_size=4), olds=st.lists(st.tuples(st.integers(0, 3), _PODS), max_size=5), asks=_PODS)
def test_the_room_that_is_counted_is_the_room_that_is_found(
    nodes: list[dict[str, str]], olds: list[tuple[int, dict[str, str]]], asks: dict[str, str]
) -> None:
    """One by one each copy passes the filters, until one does not."""
    there: list[dict[str, Any]] = [
        pod(f"old-{number}", on=f"n{on}", asks=used) for number, (on, used) in enumerate(olds) if on < len(nodes)
    ]
    cluster = cluster_of([node(f"n{number}", **has) for number, has in enumerate(nodes)], there)
    wanted = pod_of(pod(asks=asks))
    room = place_copies(wanted, cluster, 100)
    assert len(room.nodes) == _count(wanted, cluster)
    for number, node_index in enumerate(room.nodes):
        assert node_index in run_filters(IncomingPod.from_pod(wanted), cluster).feasible
        where = cluster.nodes.get_name(node_index)
        cluster = cluster_of(
            [node(f"n{each}", **has) for each, has in enumerate(nodes)],
            there := [*there, pod(f"new-{number}", on=where, asks=asks)],
        )
    assert not len(run_filters(IncomingPod.from_pod(wanted), cluster).feasible)
