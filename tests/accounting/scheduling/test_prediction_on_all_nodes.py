"""Predictions for a DaemonSet: one pod for every node that its controller selects."""

from typing import Any

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    predict_daemon_set,
    with_daemon_tolerations,
)
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod

_BANANA = "example.com_banana"


def _predict(cluster: Cluster, written: dict[str, Any]) -> Prediction:
    incoming = IncomingPod.from_pod(with_daemon_tolerations(decode_pod(written)), cluster.priority_classes)
    with open_placement_session(cluster) as session:
        return predict_daemon_set(incoming, cluster, run_filters(incoming, cluster), session)


def _create_tainted_node(name: str, key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return node(name) | {"spec": {"taints": [{"key": key, "effect": effect}]}}


def test_every_eligible_node_gets_one_pod() -> None:
    """Leave out nodes that a taint, a label or a name excludes."""
    nodes = [node("a"), node("b"), _create_tainted_node("c", "dedicated")]
    prediction = _predict(create_cluster(nodes), pod())
    assert (prediction.feasibility, prediction.count, prediction.nodes) == (Feasibility.NOW, 2, ("a", "b"))
    assert _predict(create_cluster(nodes), pod(nodeSelector={"host": "b"})).nodes == ("b",)


def test_tolerations_of_the_controller_make_nodes_eligible() -> None:
    """Cover cordoned, unreachable and pressured nodes; without a network only pods of the host network fit."""
    keys = ("unschedulable", "memory-pressure", "disk-pressure", "pid-pressure")
    nodes = [_create_tainted_node(key, f"node.kubernetes.io/{key}") for key in keys]
    nodes += [
        _create_tainted_node(key, f"node.kubernetes.io/{key}", "NoExecute") for key in ("not-ready", "unreachable")
    ]
    nodes += [_create_tainted_node("offline", "node.kubernetes.io/network-unavailable")]
    nodes[0]["spec"]["unschedulable"] = True
    assert _predict(create_cluster(nodes), pod()).count == len(keys) + 2
    assert _predict(create_cluster(nodes), pod(hostNetwork=True)).placed_count == len(nodes)


def test_a_full_node_is_reported_for_the_pod_that_is_bound_to_it() -> None:
    nodes = [node("a", **{_BANANA: "1"}), node("b", **{_BANANA: "1"})]
    prediction = _predict(
        create_cluster(nodes, [pod("old", on="b", requests={_BANANA: "1"})]), pod(requests={_BANANA: "1"})
    )
    assert (prediction.feasibility, prediction.count, prediction.nodes) == (Feasibility.NOT_NOW, 2, ("a",))
    assert prediction.message == (
        "0/2 nodes are available: 1 Insufficient example.com/banana, 1 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity]. preemption: 0/2 nodes are available: 1 No preemption victims "
        "found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_a_node_that_is_too_small_is_reported_as_never() -> None:
    cluster = create_cluster([node("a", **{_BANANA: "1"})])
    assert _predict(cluster, pod(requests={_BANANA: "2"})).feasibility is Feasibility.NEVER


def test_a_daemon_set_without_eligible_nodes_is_placed() -> None:
    """Expect no pods, as the controller does."""
    prediction = _predict(create_cluster([node("a")]), pod(nodeSelector={"host": "nowhere"}))
    assert (prediction.feasibility, prediction.count) == (Feasibility.NOW, 0)


def test_a_prediction_leaves_the_cluster_unchanged() -> None:
    cluster = create_cluster([node("a", pods="1")])
    assert [_predict(cluster, pod()).placed_count for _ in range(2)] == [1, 1]
