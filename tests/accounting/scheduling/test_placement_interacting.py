"""Copies with inter-pod constraints: quick placement agrees with a full filter run before each copy."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.scoring import Scoring, ScoringStrategy, score_nodes
from tallygate.objects.scheduling import SchedulingPod
from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import place
from tests.effort import examples

Json = dict[str, Any]

_AMOUNTS = st.fixed_dictionaries(
    {"cpu": st.integers(0, 6).map(str), "memory": st.sampled_from(["1Gi", "4Gi", "9Gi"]), "pods": st.integers(1, 9)}
)
_REQUESTS = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["500m", "1", "2"]), "memory": st.just("1Gi")})
_SCORING = st.sampled_from(
    [Scoring(), Scoring(ScoringStrategy.MOST_ALLOCATED), Scoring(ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO)]
)
_ANTI_AFFINITY: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def _place_one_by_one(pod_to_place: SchedulingPod, cluster: Cluster, copies: int, scoring: Scoring) -> list[int]:
    """Return the node indices of the copies, with all filters and scores run before each copy."""
    incoming, indices = IncomingPod.from_pod(pod_to_place), list[int]()
    with open_placement_session(cluster, scoring) as session:
        for _ in range(copies):
            feasible = run_filters(incoming, cluster).feasible
            if not len(feasible):
                break
            scores = score_nodes(incoming, cluster, feasible, scoring)
            indices.append(min(feasible[scores == scores.max()].tolist(), key=cluster.nodes.get_name))
            session.assume(incoming, indices[-1])
    return indices


@st.composite
def _clusters(draw: st.DrawFn) -> Cluster:
    nodes = [each | {"status": {"allocatable": draw(_AMOUNTS)}} for each in draw(draws.nodes())]
    drawn = draws.pods_on_nodes(st.sampled_from(draws.NODES))
    pods = [
        each | {"metadata": each["metadata"] | {"uid": f"u{number}"}}
        for number, each in enumerate(draw(st.lists(drawn, max_size=6)))
    ]
    cluster = create_cluster(nodes, pods)
    cluster.namespaces.update(draw(draws.namespaces))
    return cluster


@settings(max_examples=examples(300), deadline=None)
@given(_clusters(), draws.incoming_pods(), _REQUESTS, st.integers(1, 30), _SCORING)
def test_quick_placement_agrees_with_one_by_one(
    cluster: Cluster, drawn: Json, requests: Json, copies: int, scoring: Scoring
) -> None:
    container = {"name": "c", "resources": {"requests": requests}}
    pod_to_place = decode_pod(drawn | {"spec": drawn["spec"] | {"containers": [container], "priority": 0}})
    expected = _place_one_by_one(pod_to_place, cluster, copies, scoring)
    with open_placement_session(cluster, scoring) as session:
        assert list(place(session, pod_to_place, cluster, copies).nodes) == expected
    assert _place_one_by_one(pod_to_place, cluster, copies, scoring) == expected


@given(st.integers(1, 60), st.integers(1, 40), st.sampled_from(["100m", "1", "4611686018427387904"]))
@settings(max_examples=examples(60), deadline=None)
@example(40, 40, "4611686018427387904")
def test_quick_placement_of_independent_copies_agrees_with_one_by_one(pods: int, cpus: int, amount: str) -> None:
    """Compare for every number of copies that is computed ahead for a node."""
    nodes = [node(name, cpu=str(cpus * each), memory="9Gi", pods=str(pods)) for each, name in enumerate("abc", start=1)]
    cluster = create_cluster(nodes)
    pod_to_place = decode_pod(pod(requests={"cpu": amount, "memory": "10Mi"}, priority=0))
    with open_placement_session(cluster) as session:
        assert list(place(session, pod_to_place, cluster, 100).nodes) == _place_one_by_one(
            pod_to_place, create_cluster(nodes), 100, Scoring()
        )


def test_copies_with_anti_affinity_take_a_host_port_once_a_node() -> None:
    cluster = create_cluster([node(name, cpu="8") for name in "abc"])
    spec: Json = {"ports": [{"containerPort": 80, "hostPort": 80}], "affinity": _ANTI_AFFINITY, "priority": 0}
    with open_placement_session(cluster) as session:
        assert len(place(session, decode_pod(pod(requests={"cpu": "1"}, **spec)), cluster, 9).nodes) == 3


def test_copies_leave_room_for_a_nominated_pod() -> None:
    nominated = pod("waiting", requests={"cpu": "7"}, priority=9) | {"status": {"nominatedNodeName": "a"}}
    cluster = create_cluster([node(name, cpu="8") for name in "abc"], [nominated])
    pod_to_place = decode_pod(pod(labels={"app": "a"}, requests={"cpu": "2"}, affinity=_ANTI_AFFINITY, priority=0))
    with open_placement_session(cluster) as session:
        indices = place(session, pod_to_place, cluster, 9).nodes
    assert [cluster.nodes.get_name(each) for each in indices] == ["b", "c"]
