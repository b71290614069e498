"""The cycle of a PodGroup: which pods count, when none is bound, and what kube-scheduler says."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.kubernetes_versions.version import select_version
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.pod_group_cycle import find_group_problem
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.answers.group_predictions import GroupPredictions
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod

IN_GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def _create_cluster(cpu: str, policy: dict[str, Any], *pods: dict[str, Any], **spec: Any) -> Cluster:
    cluster = create_cluster([node("n", cpu=cpu)], pods)
    for each in pods:
        cluster.pod_groups.put_pod(decode_pod(each))
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": policy, **spec}}
    ingest(cluster, "PodGroup", msgspec.json.encode(group))
    cluster.pod_groups.has_gate = cluster.pod_groups.are_known = True
    return cluster


def _create_pods(name: str, count: int = 1, cpu: str = "1", **spec: Any) -> PodsToPlace:
    written = pod(name, requests={"cpu": cpu}, priority=spec.pop("priority", 0), **IN_GROUP, **spec)
    written["metadata"].pop("uid")
    return PodsToPlace(PodsToPlace.from_pod(decode_pod(written), "default", name).subject, decode_pod(written), count)


def _predict(cluster: Cluster, *asked: PodsToPlace) -> list[PredictionDetails]:
    groups, before = GroupPredictions(asked), len(list(cluster.list_pods()))
    with open_placement_session(cluster) as session:
        found = [groups.predict(each, cluster, session, DEFAULT_SCORING, with_node_lines=False) for each in asked]
    assert len(list(cluster.list_pods())) == before
    return [details for details in found if details is not None]


def _list_placed(details: list[PredictionDetails]) -> list[int]:
    return [each.prediction.placed_count for each in details]


@pytest.mark.parametrize(
    ("policy", "copies", "placed"),
    [
        pytest.param({"gang": {"minCount": 3}}, 3, 3, id="all of them fit"),
        pytest.param({"gang": {"minCount": 3}}, 4, 3, id="one more than fit, and the quorum is there"),
        pytest.param({"gang": {"minCount": 4}}, 4, 0, id="one less than the quorum fits"),
        pytest.param({"basic": {}}, 4, 3, id="a basic group has no quorum"),
    ],
)
def test_none_is_placed_without_the_quorum(policy: dict[str, Any], copies: int, placed: int) -> None:
    (details,) = _predict(_create_cluster("3", policy), _create_pods("w", copies))
    assert details.prediction.placed_count == placed
    assert details.feasibility is (Feasibility.NOW if placed == copies else Feasibility.NOT_NOW)


def test_pods_with_a_node_count_for_the_quorum() -> None:
    cluster = _create_cluster("3", {"gang": {"minCount": 3}}, pod("old", on="n", priority=0, **IN_GROUP))
    assert _list_placed(_predict(cluster, _create_pods("a", 2, "1500m"))) == [2]
    assert _list_placed(_predict(cluster, _create_pods("a", 2, "2"))) == [0]


def test_waiting_pods_of_the_cluster_are_tried_first() -> None:
    waiting = pod("waiting", requests={"cpu": "2"}, priority=0, **IN_GROUP)
    cluster = _create_cluster("3", {"gang": {"minCount": 2}}, waiting)
    assert _list_placed(_predict(cluster, _create_pods("a"))) == [1]
    assert _list_placed(_predict(cluster, _create_pods("a", cpu="2"))) == [0]


def test_ended_pods_count_nowhere() -> None:
    ended = pod("ended", on="n", priority=0, **IN_GROUP) | {"status": {"phase": "Succeeded"}}
    cluster = _create_cluster("3", {"gang": {"minCount": 2}}, ended)
    (details,) = _predict(cluster, _create_pods("a"))
    assert details.prediction.next_result is not None
    assert details.prediction.next_result.hold_reason == (
        "waiting for minCount pods from a gang to appear in scheduling queue: 1 of 2 pods of PodGroup g exist"
    )


def test_each_pod_has_the_message_of_the_scheduler() -> None:
    """Compare the three messages of a cycle that ends early, as kube-scheduler 1.37.2 writes them."""
    cluster = _create_cluster("3", {"gang": {"minCount": 3}})
    details = _predict(cluster, _create_pods("a"), _create_pods("b", cpu="4"), _create_pods("c"))
    assert [each.prediction.message for each in details] == [
        f"pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, {NO_VICTIMS}",
        "0/1 nodes are available: 1 Insufficient cpu.",
        "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining",
    ]
    assert [each.feasibility for each in details] == [Feasibility.NOT_NOW, Feasibility.NEVER, Feasibility.NOT_NOW]


def test_a_group_that_might_preempt_says_so() -> None:
    cluster = _create_cluster("3", {"gang": {"minCount": 2}}, pod("low", on="n", priority=-1, requests={"cpu": "2"}))
    (details,) = _predict(cluster, _create_pods("a", 2))
    assert details.feasibility is Feasibility.NOT_NOW
    assert details.prediction.unmodelled == ("scheduling group g: which pods of a lower priority it would preempt",)
    (details,) = _predict(cluster, _create_pods("a", 2, preemptionPolicy="Never"))
    assert not details.prediction.unmodelled


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (
            (_create_pods("a", priority=7),),
            "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0",
        ),
        pytest.param(
            (_create_pods("a", priority=-5), _create_pods("b", priority=7)),
            "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0",
            id="the highest priority is named",
        ),
        (
            (_create_pods("a"), _create_pods("b", preemptionPolicy="Never")),
            "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority",
        ),
    ],
)
def test_pods_that_differ_are_an_error(pods: tuple[PodsToPlace, ...], message: str) -> None:
    details = _predict(_create_cluster("9", {"gang": {"minCount": 1}}), *pods)
    assert {each.prediction.message for each in details} == {message}
    assert _list_placed(details) == [0] * len(pods)


@pytest.mark.parametrize(("named", "priority"), [("high", 7), ("system-node-critical", 2000001000), (None, 3)])
def test_a_group_has_the_priority_of_its_class_as_its_pods(named: str | None, priority: int) -> None:
    spec = {"priorityClassName": named} if named else {}
    cluster = _create_cluster("9", {"gang": {"minCount": 1}}, **spec)
    for name, value, is_default in (("high", 7, False), ("usual", 3, True)):
        written = {"metadata": {"name": name}, "value": value, "globalDefault": is_default}
        ingest(cluster, "PriorityClass", msgspec.json.encode(written))
    assert _list_placed(_predict(cluster, _create_pods("a", priority=priority))) == [1]
    assert _list_placed(_predict(cluster, _create_pods("a", priority=priority + 1))) == [0]


def test_a_gate_of_one_pod_keeps_the_group_out_of_the_queue() -> None:
    gated = _create_pods("b", schedulingGates=[{"name": "x"}])
    first, second = _predict(_create_cluster("9", {"gang": {"minCount": 1}}), _create_pods("a"), gated)
    assert first.prediction.next_result is not None
    assert first.prediction.next_result.hold_reason == "another pod of PodGroup g is not ready: Pod default/b"
    assert second.prediction.message == "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("minor", "spec", "problem"),
    [
        (37, {}, ""),
        (36, {}, "the rules of Kubernetes 1.36 for PodGroups are not modelled"),
        (38, {}, "the rules of Kubernetes 1.38 for PodGroups are not modelled"),
        (37, {"schedulingConstraints": {"topology": [{"key": "r"}]}}, "its topology constraints are not modelled"),
        (37, {"parentCompositePodGroupName": "c"}, "its CompositePodGroup c is not modelled"),
        (
            37,
            {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
            "whether kube-scheduler has the feature gate DRAWorkloadResourceClaims on is not known",
        ),
        (37, {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}, ""),
    ],
)
def test_what_is_not_modelled_is_named(minor: int, spec: dict[str, Any], problem: str) -> None:
    cluster = _create_cluster("1", {"basic": {}}, **spec)
    cluster.version = select_version(minor)
    assert find_group_problem(IncomingPod.from_pod(_create_pods("a").pod), cluster) == problem
    assert len(_predict(cluster, _create_pods("a"))) == (not problem)


def test_the_gate_of_the_scheduler_is_not_guessed() -> None:
    cluster = _create_cluster("1", {"basic": {}})
    cluster.pod_groups.has_gate = False
    incoming = IncomingPod.from_pod(_create_pods("a").pod)
    assert "GenericWorkload" in find_group_problem(incoming, cluster)
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True"}
    tried = {"metadata": {"name": "other", "namespace": "default"}, "status": {"conditions": [condition]}}
    ingest(cluster, "PodGroup", msgspec.json.encode(tried))
    assert not find_group_problem(incoming, cluster)


def test_a_group_that_is_not_stored_is_waited_for_only_if_all_are_known() -> None:
    cluster = _create_cluster("1", {"basic": {}})
    other = pod("p", priority=0, schedulingGroup={"podGroupName": "missing"})
    incoming = IncomingPod.from_pod(decode_pod(other))
    assert not find_group_problem(incoming, cluster)
    cluster.pod_groups.are_known = False
    assert find_group_problem(incoming, cluster) == "the PodGroups of this cluster are not known"
