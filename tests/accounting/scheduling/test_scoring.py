"""Scores equal kube-scheduler's: cases with answers of its plugins NodeResourcesFit and BalancedAllocation, 1.36.3."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.scoring import Scoring, ScoringStrategy, score_allocation, score_balance
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod

_CASES = [
    msgspec.json.decode(line) for line in (Path(__file__).parent / "cases/scores.jsonl").read_bytes().splitlines()
]


@pytest.mark.parametrize("case", _CASES, ids=[f"{number}-{case['strategy']}" for number, case in enumerate(_CASES)])
def test_scores_equal_those_of_the_scheduler(case: dict[str, Any]) -> None:
    cluster, incoming = create_cluster(case["nodes"], case["pods"]), IncomingPod.from_pod(decode_pod(case["pod"]))
    indices = cluster.nodes.get_indices()
    names = [cluster.nodes.get_name(index) for index in indices.tolist()]
    scoring = Scoring(ScoringStrategy(case["strategy"]), case["weights"], [(at, score) for at, score in case["shape"]])
    allocation = score_allocation(incoming, cluster, indices, scoring).tolist()
    balance = score_balance(incoming, cluster, indices, sorted(case["weights"])).tolist()
    assert dict(zip(names, allocation, strict=True)) == case["answer"]["allocation"]
    assert dict(zip(names, balance, strict=True)) == case["answer"]["balance"]


def test_amounts_beyond_64_bits_are_scored() -> None:
    cluster = create_cluster(
        [node("n", memory="4Ei", cpu="4")], [pod("old", on="n", requests={"memory": "3Ei", "cpu": "1"})]
    )
    incoming = IncomingPod.from_pod(decode_pod(pod("new", requests={"memory": "1Ei", "cpu": "1"})))
    assert score_allocation(incoming, cluster, cluster.nodes.get_indices()).tolist() == [(0 + 50) // 2]


@pytest.mark.parametrize("strategy", ScoringStrategy)
def test_a_request_beyond_64_bits_is_scored(strategy: ScoringStrategy) -> None:
    cluster = create_cluster([node("n", memory="4Gi", cpu="4")])
    incoming = IncomingPod.from_pod(decode_pod(pod(requests={"memory": "100E", "cpu": "1"})))
    indices = cluster.nodes.get_indices()
    score = {"LeastAllocated": (0 + 75) // 2, "MostAllocated": (100 + 25) // 2, "RequestedToCapacityRatio": 63}
    assert score_allocation(incoming, cluster, indices, Scoring(strategy)).tolist() == [score[strategy]]
    assert score_balance(incoming, cluster, indices).tolist() == [50 + (50 + 62 - 100) // 2]


def test_all_nodes_score_the_same_where_none_has_the_requested_amount() -> None:
    """Cover no nodes, and nodes without the resource."""
    incoming = IncomingPod.from_pod(decode_pod(pod(requests={"cpu": "10E"})))
    for nodes in ([], [node("n")]):
        cluster = create_cluster(nodes)
        indices = cluster.nodes.get_indices()
        assert score_allocation(incoming, cluster, indices).tolist() == [0] * len(nodes)
        assert score_balance(incoming, cluster, indices).tolist() == [75] * len(nodes)
