"""What becomes of copies of a pod: now, not now, never, unknown; and what each node says."""

from typing import Any

import msgspec
import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.placement import open_placement_session
from webhook.accounting.scheduling.prediction import (
    Feasibility,
    NodeDiagnosis,
    Prediction,
    diagnose_node,
    predict_copies,
)

_BANANAS = "example.com_banana"
_NAME = "example.com/banana"
_TAINT = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}


def _answer(cluster: Cluster, written: dict[str, Any], copies: int = 1) -> Prediction:
    incoming = IncomingPod.from_pod(pod_of(written), cluster.priority_classes)
    with open_placement_session(cluster) as visit:
        return predict_copies(incoming, cluster, visit, copies, run_filters(incoming, cluster))


def _said(cluster: Cluster, written: dict[str, Any]) -> dict[str, NodeDiagnosis]:
    """What every node says to the first copy that does not fit."""
    found = _answer(cluster, written, 100)
    assert found.next_result is not None
    said, incoming = found.next_result.diagnosis, IncomingPod.from_pod(pod_of(written))
    assert said is not None
    answers = [
        diagnose_node(incoming, cluster, said, each, can_ever_run=each not in found.unresolvable)
        for each in said.nodes.tolist()
    ]
    return {each.name: each for each in answers}


def test_all_copies_fit() -> None:
    found = _answer(cluster_of([node("a", **{_BANANAS: "5"})]), pod(asks={_BANANAS: "2"}), 2)
    assert (found.feasibility, found.nodes, found.next_result) == (Feasibility.NOW, ("a", "a"), None)


def test_some_copies_fit_and_the_sentence_is_about_the_first_that_does_not() -> None:
    found = _answer(cluster_of([node("a", **{_BANANAS: "5"})]), pod(asks={_BANANAS: "2"}), 4)
    assert (found.feasibility, found.placed_count, found.count) == (Feasibility.NOT_NOW, 2, 4)
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient example.com/banana. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_no_node_is_ever_large_enough() -> None:
    nodes = [node("a", **{_BANANAS: "5"}), node("b", **{_BANANAS: "555"}), node("c")]
    found = _answer(cluster_of(nodes), pod(asks={_BANANAS: "10Ki", "cpu": "0"}))
    assert (found.feasibility, dict(found.largest_allocatable)) == (Feasibility.NEVER, {_NAME: 555})


def test_a_node_that_is_large_enough_and_closed_leaves_nothing_to_wait_for() -> None:
    nodes = [node("a", **{_BANANAS: "5"}), node("b", **{_BANANAS: "9"}) | {"spec": _TAINT}]
    found = _answer(cluster_of(nodes), pod(asks={_BANANAS: "7"}))
    assert (found.feasibility, dict(found.largest_allocatable)) == (Feasibility.NEVER, {})


def test_a_node_hidden_behind_an_earlier_filter_is_looked_at_too() -> None:
    """The port is taken for now, but the node is too small for ever, which the scheduler does not say."""
    wanted = [{"containerPort": 80, "hostPort": 80}]
    cluster = cluster_of([node("a", **{_BANANAS: "5"})], [pod("old", on="a", ports=wanted)])
    assert _answer(cluster, pod(asks={_BANANAS: "7"}, ports=wanted)).feasibility is Feasibility.NEVER
    assert _answer(cluster, pod(asks={_BANANAS: "5"}, ports=wanted)).feasibility is Feasibility.NOT_NOW


def test_a_cluster_without_nodes_may_get_some() -> None:
    found = _answer(Cluster(), pod())
    assert found.feasibility is Feasibility.NOT_NOW
    assert found.message == "no nodes available to schedule pods"


def test_a_pod_with_gates_waits_for_them_and_takes_no_room() -> None:
    found = _answer(cluster_of([node("a")]), pod(schedulingGates=[{"name": "hold"}]))
    assert (found.feasibility, found.placed_count) == (Feasibility.NOT_NOW, 0)
    assert found.message == "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("spec", "question"),
    [
        ({"schedulerName": "volcano"}, "scheduler volcano: its rules are not known"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims: which devices are free"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, "volumes: claims, volumes and"),
    ],
)
def test_what_is_not_judged_is_named_and_never_guessed(spec: dict[str, Any], question: str) -> None:
    cluster = cluster_of([node("a", cpu="1")])
    found = _answer(cluster, pod(asks={"cpu": "1"}, **spec))
    assert found.feasibility is Feasibility.UNKNOWN
    (unknown,) = found.unmodelled
    assert unknown.startswith(question)
    too_much = _answer(cluster, pod(asks={"cpu": "2"}, **spec))
    assert (too_much.feasibility, len(too_much.unmodelled)) == (Feasibility.NEVER, 1)


def test_a_resource_that_devices_stand_for_is_not_short_where_no_node_advertises_it() -> None:
    """kube-scheduler 1.36 leaves it to DynamicResources then (shouldDelegateResourceToDRA)."""
    cluster = cluster_of([node("with", **{_BANANAS: "1"}), node("without")])
    served = {"metadata": {"name": "fruit"}, "spec": {"extendedResourceName": _NAME}}
    ingest(cluster, "DeviceClass", msgspec.json.encode(served))
    found = _answer(cluster, pod(asks={_BANANAS: "2"}))
    assert (found.feasibility, found.nodes) == (Feasibility.UNKNOWN, ("without",))
    assert found.unmodelled == ("example.com/banana: which devices of class fruit are free for it is not modelled",)
    own = _answer(cluster, pod(asks={"deviceclass.resource.kubernetes.io_fruit": "1"}))
    assert (own.feasibility, own.placed_count) == (Feasibility.UNKNOWN, 1)
    assert _answer(cluster, pod(asks={"deviceclass.resource.kubernetes.io_nuts": "1"})).feasibility is Feasibility.NEVER


def test_a_node_says_what_it_lacks_and_who_holds_it() -> None:
    olds = [
        pod("small", on="full", asks={_BANANAS: "1"}),
        pod("large", on="full", asks={_BANANAS: "3"}),
        pod("other", on="full", asks={"cpu": "1"}),
    ]
    cluster = cluster_of([node("full", cpu="4", **{_BANANAS: "5"}), node("tiny", **{_BANANAS: "1"})], olds)
    said = _said(cluster, pod(asks={_BANANAS: "2"}))
    assert said["full"].shortfalls == (Shortfall(_NAME, 2, 4, 5, unresolvable=False),)
    assert [(each.pod.name, dict(each.amounts)) for each in said["full"].consumers] == [
        ("large", {_NAME: 3}),
        ("small", {_NAME: 1}),
    ]
    assert (said["full"].can_ever_run, said["tiny"].can_ever_run, said["tiny"].consumers) == (True, False, ())
    assert said["tiny"].reasons == ("Insufficient example.com/banana",)
