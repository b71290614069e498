"""The result of one attempt for one pod: nodes, nomination, message, and unmodelled features."""

from pathlib import Path
from typing import Any

import pytest

from tallygate.accounting.scheduling.incoming_pod import NoPriorityClassError
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, decide, list_unmodelled
from tests.conformance.case import read_cases
from tests.conformance.schedule import compare

Json = dict[str, Any]

CASES = sorted((Path(__file__).parents[2] / "conformance" / "cases").glob("*schedule*.jsonl*"))
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
FULL = node("n0", cpu="1")


def test_there_are_cases() -> None:
    assert {each.name.partition(".")[0] for each in CASES} >= {"schedule", "schedule-hard", "schedule-topology"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_it_agrees_with_the_real_scheduler(path: Path) -> None:
    outcomes = {number: compare(case).differences for number, case in enumerate(read_cases(path), start=1)}
    assert outcomes
    assert {number: differences for number, differences in outcomes.items() if differences} == {}


def test_a_pod_with_gates_is_not_tried_and_keeps_its_nomination() -> None:
    gated = pod(schedulingGates=[{"name": "wait"}]) | {"status": {"nominatedNodeName": "n1"}}
    result = attempt(decode_pod(gated), create_cluster([node("n0")]))
    assert (result.nodes, result.message, result.diagnosis) == (
        (),
        "Scheduling is blocked due to non-empty scheduling gates",
        None,
    )
    assert result.nominated_nodes == ("n1",)


def test_a_cluster_without_nodes_has_a_message_of_its_own() -> None:
    result = attempt(decode_pod(pod(nodeSelector={"a": "b"})), create_cluster([]))
    assert (result.message, result.nominated_nodes) == ("no nodes available to schedule pods", ())


def test_a_pod_gets_its_nominated_node_if_it_fits() -> None:
    nominated = pod() | {"status": {"nominatedNodeName": "n1"}}
    assert attempt(decode_pod(nominated), create_cluster([node("n0"), node("n1")])).nodes == ("n1",)


def test_the_message_names_the_plugin_that_rejected_the_nominated_node() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    tried = pod(affinity=only, requests={"cpu": "2"}) | {"status": {"nominatedNodeName": "n0"}}
    result = decide([FULL, node("n1"), node("n2")], [], [], tried)
    assert result.message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]."
    )


@pytest.mark.parametrize(
    ("preferred", "message"),
    [
        pytest.param(
            {"key": "size", "operator": "Gt", "values": ["9.5"]},
            'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: Invalid value: "9.5": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="no integer",
        ),
        pytest.param(
            {"key": "size", "operator": "In", "values": ["a b"]},
            'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0][size]: Invalid value: "a b": '
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            id="no label value",
        ),
    ],
)
def test_an_invalid_preference_is_an_error_with_several_feasible_nodes(preferred: Json, message: str) -> None:
    term = {"weight": 1, "preference": {"matchExpressions": [preferred]}}
    preferring_pod = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}})
    assert decide([node("n0")], [], [], preferring_pod).nodes == {"n0"}
    assert decide([node("n0"), node("n1")], [], [], preferring_pod).message == message


def test_a_node_must_declare_the_features_that_the_pod_requires() -> None:
    capable_node = node("n1") | {
        "status": {"allocatable": {"pods": "9"}, "declaredFeatures": ["UserNamespacesHostNetworkSupport"]}
    }
    demanding_pod = pod(hostNetwork=True, hostUsers=False)
    assert decide([node("n0"), capable_node], [], [], demanding_pod).nodes == {"n1"}
    assert decide([node("n0")], [], [], demanding_pod).message == (
        f"0/1 nodes are available: 1 node(s) didn't match Pod's required features. {NOT_HELPFUL}"
    )


def test_a_missing_priority_class_is_an_error_that_names_the_existing_ones() -> None:
    cluster = create_full_cluster(
        [node("n0")], [], [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}]
    )
    with pytest.raises(
        NoPriorityClassError, match="no PriorityClass with name hihg was found; there are high, system-"
    ):
        attempt(decode_pod(pod(priorityClassName="hihg")), cluster)


def test_unknown_volumes_are_reported_as_unmodelled() -> None:
    mounting_pod = decode_pod(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]))
    cluster = create_cluster([node("n0")])
    assert attempt(mounting_pod, cluster).nodes == ("n0",)
    (unknown,) = list_unmodelled(mounting_pod, cluster)
    assert unknown == "volumes: claims, volumes and storage classes of this cluster are not known"


def test_a_pod_without_volumes_needs_no_storage_objects() -> None:
    empty = pod(volumes=[{"name": "v", "emptyDir": {}}])
    assert list_unmodelled(decode_pod(empty), create_cluster([node("n0")])) == ()
