"""What is told without placing copies is what placing them comes to."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting.scheduling import preemption_generators as draws
from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import attempt, place_copies, whole
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.prediction import (
    Feasibility,
    can_never_run,
    find_largest_allocatable,
    predict_quickly,
)
from webhook.objects.scheduling import SchedulingPod

Json = dict[str, Any]

_GPU = "nvidia.com/gpu"
_NEAR = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
]}}  # fmt: skip


def made(*gpus: int) -> Cluster:
    """Nodes with so many GPUs each."""
    cluster = Cluster()
    for name, amount in zip("abcdef", gpus, strict=False):
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        node = {"metadata": meta, "status": {"allocatable": {_GPU: str(amount), "pods": "3"}}}
        ingest(cluster, "Node", json.dumps(node).encode())
    return cluster


def newcomer(gpus: int, **spec: Any) -> SchedulingPod:
    """A pod with so many GPUs."""
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
def test_how_many_have_room_is_found_by_placing(gpus: list[int], each: int, copies: int, spec: dict[str, Any]) -> None:
    cluster, pod = made(*gpus), newcomer(each, **spec)
    placed = len(place_copies(pod, cluster, copies).nodes)
    incoming = IncomingPod.from_pod(pod)
    found = predict_quickly(incoming, cluster, copies, run_filters(incoming, cluster))
    assert found.feasibility is (Feasibility.NOW if placed == copies else Feasibility.NOT_NOW)
    assert placed == copies or (found.placed_count, found.candidate) == (placed, None)


@given(draws.nodes(), draws.settled(), draws.newcomers())
@settings(max_examples=examples(200), deadline=None)
def test_who_is_asked_to_leave_is_one_of_those_whom_the_scheduler_may_ask(
    nodes: list[Json], pods: list[Json], drawn: Json
) -> None:
    pod, cluster = pod_of(drawn | {"status": {}}), whole(nodes, pods, [])
    incoming = IncomingPod.from_pod(pod)
    found, said = predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)), attempt(pod, cluster)
    candidates = said.preemption.candidates if said.preemption else ()
    assert found.feasibility is (Feasibility.NOW if said.nodes else Feasibility.NOT_NOW)
    if candidates:
        assert found.candidate in candidates
    else:
        assert (found.candidate, found.message) == (None, said.message)


def test_where_many_nodes_would_have_to_be_tried_nothing_is_said() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node(name, cpu="1") for name in "abcd"]
    low = [pod(f"low-{name}", on=name, asks={"cpu": "1"}) for name in "abcd"]
    high = [pod(f"high-{name}", on=name, labels={"app": "a"}, priority=9) for name in "abcd"]
    incoming = IncomingPod.from_pod(pod_of(pod(asks={"cpu": "1"}, priority=5, affinity=affinity)))
    for many, feasibility in ((3, Feasibility.NOT_NOW), (4, Feasibility.UNKNOWN)):
        cluster = cluster_of(nodes[:many], [*low[:many], *high[:many]])
        assert predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)).feasibility is feasibility


@pytest.mark.parametrize(("gpus", "hopeless"), [(4, False), (5, True)])
def test_what_can_never_be_is_told_with_the_largest(gpus: int, *, hopeless: bool) -> None:
    incoming, cluster = IncomingPod.from_pod(newcomer(gpus)), made(4, 2, 0)
    assert can_never_run(incoming, cluster) is hopeless
    assert find_largest_allocatable(incoming, cluster) == ({_GPU: 4} if hopeless else {})


def test_who_advertises_is_who_has_some() -> None:
    cluster = made(0, 2, 1)
    assert cluster.nodes.list_advertised_resources() == [_GPU, "pods"]
    assert cluster.nodes.list_advertising_nodes(_GPU, 5) == ["b", "c"]
    assert cluster.nodes.list_advertising_nodes(_GPU, 1) == ["b"]
    assert not cluster.nodes.is_advertised("example.com/other")
    cluster.remove_node("b")
    cluster.remove_node("c")
    assert not cluster.nodes.is_advertised(_GPU)
