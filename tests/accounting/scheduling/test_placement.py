"""Placement of copies of a pod: their number and their nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.diagnosis import format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import PlacementSession, is_independent, open_placement_session
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tallygate.objects.scheduling import SchedulingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import place, place_copies

_GPU = "nvidia.com_gpu"


def _names(cluster: Cluster, indices: tuple[int, ...]) -> list[str]:
    return [cluster.nodes.get_name(each) for each in indices]


def _count(incoming: SchedulingPod, cluster: Cluster) -> int:
    return compute_remaining_capacity(IncomingPod.from_pod(incoming, cluster.priority_classes), cluster).total


def test_each_copy_goes_to_the_node_with_the_most_free_resources() -> None:
    cluster = create_cluster([node("large", cpu="8", memory="8Gi"), node("small", cpu="4", memory="4Gi")])
    placement = place_copies(decode_pod(pod(requests={"cpu": "2", "memory": "2Gi"})), cluster, 9)
    assert _names(cluster, placement.nodes) == ["large", "large", "small", "large", "large", "small"]
    assert placement.unplaced is not None
    assert format_fit_error(placement.unplaced) == "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."


def test_placement_leaves_the_cluster_unchanged() -> None:
    cluster = create_cluster([node("n", cpu="8")], [pod("old", on="n", requests={"cpu": "1"})])
    before = cluster.nodes.get_used(0), cluster.nodes.pods[0], len(cluster), len(cluster.groups)
    place_copies(decode_pod(pod(requests={"cpu": "1"})), cluster, 5)
    assert (cluster.nodes.get_used(0), cluster.nodes.pods[0], len(cluster), len(cluster.groups)) == before


def test_a_crash_leaves_the_cluster_unchanged() -> None:
    cluster = create_cluster([node("n", cpu="8")])

    def crash(session: PlacementSession) -> None:
        place(session, decode_pod(pod(requests={"cpu": "1"})), cluster, 3)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"), open_placement_session(cluster) as session:
        crash(session)
    assert (len(cluster), cluster.nodes.pods[0]) == (0, 0)


def test_one_session_places_several_pods_one_after_the_other() -> None:
    cluster = create_cluster([node("n", cpu="8", **{_GPU: "3"})])
    with open_placement_session(cluster) as session:
        assert len(place(session, decode_pod(pod("a", requests={_GPU: "2"})), cluster, 1).nodes) == 1
        assert len(place(session, decode_pod(pod("b", requests={_GPU: "1"})), cluster, 5).nodes) == 1


def test_a_node_gives_a_host_port_to_one_pod() -> None:
    cluster = create_cluster([node("a"), node("b")])
    assert _count(decode_pod(pod(ports=[{"containerPort": 80, "hostPort": 80}])), cluster) == 2


def test_pods_without_requests_fill_the_pod_slots() -> None:
    cluster = create_cluster([node("a"), node("b", pods="3")], [pod("old", on="a")])
    assert _count(decode_pod(pod()), cluster) == 12


def test_copies_with_anti_affinity_are_counted_one_by_one() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = create_cluster([node(name, cpu="8") for name in "abc"])
    written = pod(labels={"app": "a"}, requests={"cpu": "1"}, affinity=affinity)
    assert not is_independent(IncomingPod.from_pod(decode_pod(written)))
    assert _count(decode_pod(written), cluster) == 3


@pytest.mark.parametrize("amount", ["10E", "9223372036854775807", "1e30"])
def test_a_request_beyond_64_bits_does_not_fit(amount: str) -> None:
    """Cover a difference: kube-scheduler counts 10E as zero and places the pod."""
    cluster = create_cluster([node("n", cpu="8", **{_GPU: "8"})])
    incoming = decode_pod(pod(requests={_GPU: amount}))
    assert (_count(incoming, cluster), place_copies(incoming, cluster, 2).nodes) == (0, ())


def test_a_request_beyond_64_bits_fits_a_node_with_that_amount() -> None:
    cluster = create_cluster([node("n", **{_GPU: "100E"})])
    assert _count(decode_pod(pod(requests={_GPU: "30E"})), cluster) == 3


def test_a_nominated_pod_of_the_same_priority_takes_room() -> None:
    nominated = pod("waiting", requests={"cpu": "3"}) | {"status": {"nominatedNodeName": "n"}}
    cluster = create_cluster([node("n", cpu="8")], [nominated])
    assert _count(decode_pod(pod(requests={"cpu": "1"})), cluster) == 5
    assert _count(decode_pod(pod(requests={"cpu": "1"}, priority=1)), cluster) == 8


_AMOUNT = st.integers(0, 5).map(str)
_PODS = st.builds(lambda cpu, gpu: {"cpu": cpu, _GPU: gpu}, _AMOUNT, _AMOUNT)


@given(
    nodes=st.lists(_PODS, max_size=4),
    existing=st.lists(st.tuples(st.integers(0, 3), _PODS), max_size=5),
    requests=_PODS,
)
def test_the_count_equals_the_number_of_placed_copies(
    nodes: list[dict[str, str]], existing: list[tuple[int, dict[str, str]]], requests: dict[str, str]
) -> None:
    """Each copy passes the filters, until one does not."""
    pods: list[dict[str, Any]] = [
        pod(f"old-{number}", on=f"n{on}", requests=used)
        for number, (on, used) in enumerate(existing)
        if on < len(nodes)
    ]
    cluster = create_cluster([node(f"n{number}", **allocatable) for number, allocatable in enumerate(nodes)], pods)
    incoming = decode_pod(pod(requests=requests))
    placement = place_copies(incoming, cluster, 100)
    assert len(placement.nodes) == _count(incoming, cluster)
    for number, node_index in enumerate(placement.nodes):
        assert node_index in run_filters(IncomingPod.from_pod(incoming), cluster).feasible
        name = cluster.nodes.get_name(node_index)
        cluster = create_cluster(
            [node(f"n{each}", **allocatable) for each, allocatable in enumerate(nodes)],
            pods := [*pods, pod(f"new-{number}", on=name, requests=requests)],
        )
    assert not len(run_filters(IncomingPod.from_pod(incoming), cluster).feasible)
