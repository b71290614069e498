"""Scores are kube-scheduler's own: cases answered by its plugins NodeResourcesFit and BalancedAllocation, 1.36.3."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.scoring import Scoring, ScoringStrategy, score_allocation, score_balance

_CASES = [
    msgspec.json.decode(line) for line in (Path(__file__).parent / "cases/scores.jsonl").read_bytes().splitlines()
]


@pytest.mark.parametrize("case", _CASES, ids=[f"{number}-{case['strategy']}" for number, case in enumerate(_CASES)])
def test_nodes_score_as_the_scheduler_scores_them(case: dict[str, Any]) -> None:
    cluster, incoming = cluster_of(case["nodes"], case["pods"]), IncomingPod.from_pod(pod_of(case["pod"]))
    places = cluster.nodes.get_indices()
    names = [cluster.nodes.get_name(place) for place in places.tolist()]
    scoring = Scoring(ScoringStrategy(case["strategy"]), case["weights"], [(at, score) for at, score in case["shape"]])
    allocation = score_allocation(incoming, cluster, places, scoring).tolist()
    balance = score_balance(incoming, cluster, places, sorted(case["weights"])).tolist()
    assert dict(zip(names, allocation, strict=True)) == case["answer"]["allocation"]
    assert dict(zip(names, balance, strict=True)) == case["answer"]["balance"]


def test_amounts_too_large_for_64_bits_are_scored_all_the_same() -> None:
    cluster = cluster_of([node("n", memory="4Ei", cpu="4")], [pod("old", on="n", asks={"memory": "3Ei", "cpu": "1"})])
    incoming = IncomingPod.from_pod(pod_of(pod("new", asks={"memory": "1Ei", "cpu": "1"})))
    assert score_allocation(incoming, cluster, cluster.nodes.get_indices()).tolist() == [(0 + 50) // 2]


@pytest.mark.parametrize("strategy", ScoringStrategy)
def test_a_pod_that_asks_for_more_than_fits_in_64_bits_is_scored_all_the_same(strategy: ScoringStrategy) -> None:
    cluster = cluster_of([node("n", memory="4Gi", cpu="4")])
    incoming = IncomingPod.from_pod(pod_of(pod(asks={"memory": "100E", "cpu": "1"})))
    places = cluster.nodes.get_indices()
    score = {"LeastAllocated": (0 + 75) // 2, "MostAllocated": (100 + 25) // 2, "RequestedToCapacityRatio": 63}
    assert score_allocation(incoming, cluster, places, Scoring(strategy)).tolist() == [score[strategy]]
    assert score_balance(incoming, cluster, places).tolist() == [50 + (50 + 62 - 100) // 2]


def test_where_no_node_has_what_is_asked_for_in_such_numbers_all_score_alike() -> None:
    """Without nodes, and with some that have none of it."""
    incoming = IncomingPod.from_pod(pod_of(pod(asks={"cpu": "10E"})))
    for nodes in ([], [node("n")]):
        cluster = cluster_of(nodes)
        places = cluster.nodes.get_indices()
        assert score_allocation(incoming, cluster, places).tolist() == [0] * len(nodes)
        assert score_balance(incoming, cluster, places).tolist() == [75] * len(nodes)
