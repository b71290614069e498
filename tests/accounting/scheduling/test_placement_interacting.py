"""Copies that mind whom they are with: placing them quickly is placing them one by one, everything asked each time."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import place
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.placement import open_placement_session
from webhook.accounting.scheduling.scoring import Scoring, ScoringStrategy, score_nodes
from webhook.objects.scheduling import SchedulingPod

Json = dict[str, Any]

_AMOUNTS = st.fixed_dictionaries(
    {"cpu": st.integers(0, 6).map(str), "memory": st.sampled_from(["1Gi", "4Gi", "9Gi"]), "pods": st.integers(1, 9)}
)
_ASKS = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["500m", "1", "2"]), "memory": st.just("1Gi")})
_SCORING = st.sampled_from(
    [Scoring(), Scoring(ScoringStrategy.MOST_ALLOCATED), Scoring(ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO)]
)
_SHUNNING: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def _one_by_one(wanted: SchedulingPod, cluster: Cluster, copies: int, scoring: Scoring) -> list[int]:
    """Where copies go: of every node everything is asked before each."""
    incoming, places = IncomingPod.from_pod(wanted), list[int]()
    with open_placement_session(cluster, scoring) as visit:
        for _ in range(copies):
            fitting = run_filters(incoming, cluster).feasible
            if not len(fitting):
                break
            liked = score_nodes(incoming, cluster, fitting, scoring)
            places.append(min(fitting[liked == liked.max()].tolist(), key=cluster.nodes.get_name))
            visit.assume(incoming, places[-1])
    return places


@st.composite
def _clusters(draw: st.DrawFn) -> Cluster:
    nodes = [each | {"status": {"allocatable": draw(_AMOUNTS)}} for each in draw(draws.nodes())]
    drawn = draws.stored_pods(st.sampled_from(draws.NODES))
    pods = [
        each | {"metadata": each["metadata"] | {"uid": f"u{number}"}}
        for number, each in enumerate(draw(st.lists(drawn, max_size=6)))
    ]
    cluster = cluster_of(nodes, pods)
    cluster.namespaces.update(draw(draws.namespaces))
    return cluster


@settings(max_examples=examples(300), deadline=None)
@given(_clusters(), draws.newcomers(), _ASKS, st.integers(1, 30), _SCORING)
def test_they_go_where_they_go_one_by_one(
    cluster: Cluster, drawn: Json, asks: Json, copies: int, scoring: Scoring
) -> None:
    container = {"name": "c", "resources": {"requests": asks}}
    wanted = pod_of(drawn | {"spec": drawn["spec"] | {"containers": [container], "priority": 0}})
    expected = _one_by_one(wanted, cluster, copies, scoring)
    with open_placement_session(cluster, scoring) as visit:
        assert list(place(visit, wanted, cluster, copies).nodes) == expected
    assert _one_by_one(wanted, cluster, copies, scoring) == expected


@given(st.integers(1, 60), st.integers(1, 40), st.sampled_from(["100m", "1", "4611686018427387904"]))
@settings(max_examples=examples(60), deadline=None)
@example(40, 40, "4611686018427387904")
def test_so_do_those_that_only_take_room(pods: int, cpus: int, asked: str) -> None:
    """However many copies ahead a node is looked at."""
    nodes = [node(name, cpu=str(cpus * each), memory="9Gi", pods=str(pods)) for each, name in enumerate("abc", start=1)]
    cluster = cluster_of(nodes)
    wanted = pod_of(pod(asks={"cpu": asked, "memory": "10Mi"}, priority=0))
    with open_placement_session(cluster) as visit:
        assert list(place(visit, wanted, cluster, 100).nodes) == _one_by_one(wanted, cluster_of(nodes), 100, Scoring())


def test_a_host_port_among_those_that_shun_each_other_is_taken_once() -> None:
    cluster = cluster_of([node(name, cpu="8") for name in "abc"])
    spec: Json = {"ports": [{"containerPort": 80, "hostPort": 80}], "affinity": _SHUNNING, "priority": 0}
    with open_placement_session(cluster) as visit:
        assert len(place(visit, pod_of(pod(asks={"cpu": "1"}, **spec)), cluster, 9).nodes) == 3


def test_where_a_node_is_promised_to_another_that_one_is_yielded_to() -> None:
    promised = pod("waiting", asks={"cpu": "7"}, priority=9) | {"status": {"nominatedNodeName": "a"}}
    cluster = cluster_of([node(name, cpu="8") for name in "abc"], [promised])
    wanted = pod_of(pod(labels={"app": "a"}, asks={"cpu": "2"}, affinity=_SHUNNING, priority=0))
    with open_placement_session(cluster) as visit:
        places = place(visit, wanted, cluster, 9).nodes
    assert [cluster.nodes.get_name(each) for each in places] == ["b", "c"]
