"""A pod for every node that is to have it, as a DaemonSet's controller and the scheduler deal with it."""

from typing import Any

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.placement import open_placement_session
from webhook.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    predict_daemon_set,
    with_daemon_tolerations,
)

_BANANA = "example.com_banana"


def _answer(cluster: Cluster, written: dict[str, Any]) -> Prediction:
    incoming = IncomingPod.from_pod(with_daemon_tolerations(pod_of(written)), cluster.priority_classes)
    with open_placement_session(cluster) as visit:
        return predict_daemon_set(incoming, cluster, run_filters(incoming, cluster), visit)


def _tainted(name: str, key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return node(name) | {"spec": {"taints": [{"key": key, "effect": effect}]}}


def test_every_node_that_takes_it_has_one() -> None:
    """Those that a taint, a label or a name keeps out are not meant at all, and miss nothing."""
    nodes = [node("a"), node("b"), _tainted("c", "dedicated")]
    found = _answer(cluster_of(nodes), pod())
    assert (found.feasibility, found.count, found.nodes) == (Feasibility.NOW, 2, ("a", "b"))
    assert _answer(cluster_of(nodes), pod(nodeSelector={"host": "b"})).nodes == ("b",)


def test_what_the_controller_tolerates_for_it_keeps_it_out_of_no_node() -> None:
    """A closed node, and one under pressure or lost; without a network only who uses the host's."""
    keys = ("unschedulable", "memory-pressure", "disk-pressure", "pid-pressure")
    nodes = [_tainted(key, f"node.kubernetes.io/{key}") for key in keys]
    nodes += [_tainted(key, f"node.kubernetes.io/{key}", "NoExecute") for key in ("not-ready", "unreachable")]
    nodes += [_tainted("offline", "node.kubernetes.io/network-unavailable")]
    nodes[0]["spec"]["unschedulable"] = True
    assert _answer(cluster_of(nodes), pod()).count == len(keys) + 2
    assert _answer(cluster_of(nodes), pod(hostNetwork=True)).placed_count == len(nodes)


def test_a_node_that_is_full_is_told_in_the_words_for_the_pod_that_is_meant_for_it() -> None:
    nodes = [node("a", **{_BANANA: "1"}), node("b", **{_BANANA: "1"})]
    found = _answer(cluster_of(nodes, [pod("old", on="b", asks={_BANANA: "1"})]), pod(asks={_BANANA: "1"}))
    assert (found.feasibility, found.count, found.nodes) == (Feasibility.NOT_NOW, 2, ("a",))
    assert found.message == (
        "0/2 nodes are available: 1 Insufficient example.com/banana, 1 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity]. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims "
        "found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_what_is_too_small_for_ever_is_told() -> None:
    cluster = cluster_of([node("a", **{_BANANA: "1"})])
    assert _answer(cluster, pod(asks={_BANANA: "2"})).feasibility is Feasibility.NEVER


def test_where_no_node_is_meant_nothing_is_missed() -> None:
    """As the controller has it, which then wants none."""
    found = _answer(cluster_of([node("a")]), pod(nodeSelector={"host": "nowhere"}))
    assert (found.feasibility, found.count) == (Feasibility.NOW, 0)


def test_the_cluster_is_as_before() -> None:
    cluster = cluster_of([node("a", pods="1")])
    assert [_answer(cluster, pod()).placed_count for _ in range(2)] == [1, 1]
