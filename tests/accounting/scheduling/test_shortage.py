"""Quick predictions, without placing copies, agree with placing them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.node_fit import UnhealthyDevices
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_diagnosis import list_unhealthy_devices
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    can_never_run,
    find_largest_amounts,
    predict_quickly,
)
from tallygate.objects.scheduling import SchedulingPod
from tests.accounting.scheduling import preemption_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, place_copies
from tests.effort import examples

Json = dict[str, Any]

_GPU = "nvidia.com/gpu"
_NEAR = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
]}}  # fmt: skip


def create_gpu_cluster(*gpus: int) -> Cluster:
    """Create a cluster with one node for each number of GPUs."""
    cluster = Cluster()
    for name, amount in zip("abcdef", gpus, strict=False):
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        node = {"metadata": meta, "status": {"allocatable": {_GPU: str(amount), "pods": "3"}}}
        ingest(cluster, "Node", json.dumps(node).encode())
    return cluster


def create_gpu_pod(gpus: int, **spec: Any) -> SchedulingPod:
    """Create a pod that requests a number of GPUs."""
    container = {"name": "c", "resources": {"requests": {_GPU: str(gpus)}, "limits": {_GPU: str(gpus)}}}
    body = {
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [container], "priority": 0, **spec},
    }
    return msgspec.json.decode(json.dumps(body), type=SchedulingPod)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 8),
    st.sampled_from([{}, {"affinity": _NEAR}]),
)
def test_a_quick_prediction_places_as_many_copies(
    gpus: list[int], each: int, copies: int, spec: dict[str, Any]
) -> None:
    cluster, pod = create_gpu_cluster(*gpus), create_gpu_pod(each, **spec)
    placed = len(place_copies(pod, cluster, copies).nodes)
    incoming = IncomingPod.from_pod(pod)
    found = predict_quickly(incoming, cluster, copies, run_filters(incoming, cluster))
    assert found.feasibility is (Feasibility.NOW if placed == copies else Feasibility.NOT_NOW)
    assert placed == copies or (found.placed_count, found.candidate) == (placed, None)


@given(draws.nodes(), draws.existing_pods(), draws.incoming_pods())
@settings(max_examples=examples(200), deadline=None)
def test_a_quick_prediction_names_a_preemption_candidate_of_the_scheduler(
    nodes: list[Json], pods: list[Json], drawn: Json
) -> None:
    pod, cluster = decode_pod(drawn | {"status": {}}), create_full_cluster(nodes, pods, [])
    incoming = IncomingPod.from_pod(pod)
    found, result = predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)), attempt(pod, cluster)
    candidates = result.preemption.candidates if result.preemption else ()
    assert found.feasibility is (Feasibility.NOW if result.nodes else Feasibility.NOT_NOW)
    if candidates:
        assert found.candidate in candidates
    else:
        assert (found.candidate, found.message) == (None, result.message)


def test_a_quick_prediction_is_unknown_where_it_would_try_many_nodes() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node(name, cpu="1") for name in "abcd"]
    low = [pod(f"low-{name}", on=name, requests={"cpu": "1"}) for name in "abcd"]
    high = [pod(f"high-{name}", on=name, labels={"app": "a"}, priority=9) for name in "abcd"]
    incoming = IncomingPod.from_pod(decode_pod(pod(requests={"cpu": "1"}, priority=5, affinity=affinity)))
    for count, feasibility in ((3, Feasibility.NOT_NOW), (4, Feasibility.UNKNOWN)):
        cluster = create_cluster(nodes[:count], [*low[:count], *high[:count]])
        assert predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)).feasibility is feasibility


@pytest.mark.parametrize(("gpus", "never"), [(4, False), (5, True)])
def test_a_pod_that_never_fits_gets_the_largest_amount(gpus: int, *, never: bool) -> None:
    incoming, cluster = IncomingPod.from_pod(create_gpu_pod(gpus)), create_gpu_cluster(4, 2, 0)
    assert can_never_run(incoming, cluster) is never
    assert find_largest_amounts(incoming, cluster) == ({_GPU: 4} if never else {})


def test_only_nodes_with_a_positive_amount_advertise_a_resource() -> None:
    cluster = create_gpu_cluster(0, 2, 1)
    assert cluster.nodes.list_advertised_resources() == [_GPU, "pods"]
    assert cluster.nodes.list_advertising_nodes(_GPU, 5) == ["b", "c"]
    assert cluster.nodes.list_advertising_nodes(_GPU, 1) == ["b"]
    assert not cluster.nodes.is_advertised("example.com/other")
    cluster.remove_node("b")
    cluster.remove_node("c")
    assert not cluster.nodes.is_advertised(_GPU)


def test_unhealthy_devices_of_many_nodes_are_part_of_their_amounts() -> None:
    """Use more nodes than the columns have at first."""
    cluster = Cluster()
    for number in range(100):
        status = {"capacity": {_GPU: "4", "pods": "9"}, "allocatable": {_GPU: "0" if number else "1", "pods": "9"}}
        ingest(cluster, "Node", json.dumps({"metadata": {"name": f"n{number}"}, "status": status}).encode())
    indices = cluster.nodes.get_indices()
    assert cluster.nodes.find_capacity(_GPU, indices).tolist() == [4] * 100
    assert len(cluster.nodes.list_advertising_nodes(_GPU, 200)) == 100
    assert cluster.nodes.find_capacity("example.com/other", indices).tolist() == [0] * 100
    incoming = IncomingPod.from_pod(create_gpu_pod(4))
    assert not can_never_run(incoming, cluster)
    assert len(list_unhealthy_devices(incoming, cluster)) == 100
    for number in range(1, 100):
        cluster.remove_node(f"n{number}")
    assert list_unhealthy_devices(incoming, cluster) == (UnhealthyDevices("n0", _GPU, 3, 4),)
