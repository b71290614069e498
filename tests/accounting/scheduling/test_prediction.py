"""Predictions for copies of a pod (now, not now, never, unknown), and the diagnosis of each node."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.node_fit import Shortfall
from tallygate.accounting.scheduling.device_shortfalls import DeviceInspector
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_diagnosis import NodeDiagnosis, diagnose_node
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    predict_copies,
)
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod

_BANANAS = "example.com_banana"
_NAME = "example.com/banana"
_TAINT = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}


def _predict(cluster: Cluster, written: dict[str, Any], copies: int = 1) -> Prediction:
    incoming = IncomingPod.from_pod(decode_pod(written), cluster.priority_classes)
    with open_placement_session(cluster) as session:
        return predict_copies(incoming, cluster, session, copies, run_filters(incoming, cluster))


def _diagnose_nodes(cluster: Cluster, written: dict[str, Any]) -> dict[str, NodeDiagnosis]:
    """Return the diagnosis of every node for the first copy that does not fit."""
    prediction = _predict(cluster, written, 100)
    assert prediction.next_result is not None
    diagnosis, incoming = prediction.next_result.diagnosis, IncomingPod.from_pod(decode_pod(written))
    assert diagnosis is not None
    inspector = DeviceInspector(incoming, cluster)
    diagnoses = [
        diagnose_node(inspector, diagnosis, each, can_ever_run=each not in prediction.unresolvable)
        for each in diagnosis.nodes.tolist()
    ]
    return {each.name: each for each in diagnoses}


def test_all_copies_fit() -> None:
    prediction = _predict(create_cluster([node("a", **{_BANANAS: "5"})]), pod(requests={_BANANAS: "2"}), 2)
    assert (prediction.feasibility, prediction.nodes, prediction.next_result) == (Feasibility.NOW, ("a", "a"), None)


def test_the_message_is_about_the_first_copy_that_does_not_fit() -> None:
    prediction = _predict(create_cluster([node("a", **{_BANANAS: "5"})]), pod(requests={_BANANAS: "2"}), 4)
    assert (prediction.feasibility, prediction.placed_count, prediction.count) == (Feasibility.NOT_NOW, 2, 4)
    assert prediction.message == (
        "0/1 nodes are available: 1 Insufficient example.com/banana. preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_pod_never_fits_where_no_node_is_large_enough() -> None:
    nodes = [node("a", **{_BANANAS: "5"}), node("b", **{_BANANAS: "555"}), node("c")]
    prediction = _predict(create_cluster(nodes), pod(requests={_BANANAS: "10Ki", "cpu": "0"}))
    assert (prediction.feasibility, dict(prediction.largest_amounts)) == (Feasibility.NEVER, {_NAME: 555})


def test_a_pod_never_fits_where_the_only_large_node_is_tainted() -> None:
    nodes = [node("a", **{_BANANAS: "5"}), node("b", **{_BANANAS: "9"}) | {"spec": _TAINT}]
    prediction = _predict(create_cluster(nodes), pod(requests={_BANANAS: "7"}))
    assert (prediction.feasibility, dict(prediction.largest_amounts)) == (Feasibility.NEVER, {})


def test_a_later_filter_is_evaluated_for_a_node_that_an_earlier_one_rejects() -> None:
    """Cover a used port on a node that is too small, which the scheduler does not report."""
    wanted = [{"containerPort": 80, "hostPort": 80}]
    cluster = create_cluster([node("a", **{_BANANAS: "5"})], [pod("old", on="a", ports=wanted)])
    assert _predict(cluster, pod(requests={_BANANAS: "7"}, ports=wanted)).feasibility is Feasibility.NEVER
    assert _predict(cluster, pod(requests={_BANANAS: "5"}, ports=wanted)).feasibility is Feasibility.NOT_NOW


def test_a_pod_does_not_fit_now_in_a_cluster_without_nodes() -> None:
    prediction = _predict(Cluster(), pod())
    assert prediction.feasibility is Feasibility.NOT_NOW
    assert prediction.message == "no nodes available to schedule pods"


def test_a_pod_with_scheduling_gates_does_not_fit_now() -> None:
    prediction = _predict(create_cluster([node("a")]), pod(schedulingGates=[{"name": "hold"}]))
    assert (prediction.feasibility, prediction.placed_count) == (Feasibility.NOT_NOW, 0)
    assert prediction.message == "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedulerName": "volcano"}, "scheduler volcano: its rules are not known"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims: the claims and devices of this cluster"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, "volumes: claims, volumes and"),
    ],
)
def test_a_prediction_names_features_that_are_not_modelled(spec: dict[str, Any], expected: str) -> None:
    cluster = create_cluster([node("a", cpu="1")])
    prediction = _predict(cluster, pod(requests={"cpu": "1"}, **spec))
    assert prediction.feasibility is Feasibility.UNKNOWN
    (unknown,) = prediction.unmodelled
    assert unknown.startswith(expected)
    too_much = _predict(cluster, pod(requests={"cpu": "2"}, **spec))
    assert (too_much.feasibility, len(too_much.unmodelled)) == (Feasibility.NEVER, 1)


def test_a_device_class_resource_is_not_insufficient_on_a_node_that_does_not_advertise_it() -> None:
    """Leave the resource to DynamicResources, as kube-scheduler 1.36 does (shouldDelegateResourceToDRA)."""
    cluster = create_cluster([node("with", **{_BANANAS: "1"}), node("without")])
    device_class = {"metadata": {"name": "fruit"}, "spec": {"extendedResourceName": _NAME}}
    ingest(cluster, "DeviceClass", msgspec.json.encode(device_class))
    prediction = _predict(cluster, pod(requests={_BANANAS: "2"}))
    assert (prediction.feasibility, prediction.nodes) == (Feasibility.UNKNOWN, ("without",))
    assert prediction.unmodelled == ("example.com/banana: the devices of class fruit in this cluster are not known",)
    own = _predict(cluster, pod(requests={"deviceclass.resource.kubernetes.io_fruit": "1"}))
    assert (own.feasibility, own.placed_count) == (Feasibility.UNKNOWN, 1)
    assert (
        _predict(cluster, pod(requests={"deviceclass.resource.kubernetes.io_nuts": "1"})).feasibility
        is Feasibility.NEVER
    )


def test_a_node_diagnosis_names_shortfalls_and_consumers() -> None:
    existing = [
        pod("small", on="full", requests={_BANANAS: "1"}),
        pod("large", on="full", requests={_BANANAS: "3"}),
        pod("other", on="full", requests={"cpu": "1"}),
    ]
    cluster = create_cluster([node("full", cpu="4", **{_BANANAS: "5"}), node("tiny", **{_BANANAS: "1"})], existing)
    nodes = _diagnose_nodes(cluster, pod(requests={_BANANAS: "2"}))
    assert nodes["full"].shortfalls == (Shortfall(_NAME, 2, 4, 5, unresolvable=False),)
    assert [(each.pod.name, dict(each.amounts)) for each in nodes["full"].consumers] == [
        ("large", {_NAME: 3}),
        ("small", {_NAME: 1}),
    ]
    assert (nodes["full"].can_ever_run, nodes["tiny"].can_ever_run, nodes["tiny"].consumers) == (True, False, ())
    assert nodes["tiny"].reasons == ("Insufficient example.com/banana",)
