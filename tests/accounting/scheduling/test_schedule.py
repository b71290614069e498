"""What the scheduler comes to with one pod: a node, a sentence, a promise; and what was not judged."""

from pathlib import Path
from typing import Any

import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import attempt, decided, list_unmodelled, whole
from tests.conformance.case import read_cases
from tests.conformance.schedule import compare
from webhook.accounting.scheduling.incoming_pod import NoPriorityClassError

Json = dict[str, Any]

CASES = sorted((Path(__file__).parents[2] / "conformance" / "cases").glob("*schedule*.jsonl*"))
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
FULL = node("n0", cpu="1")


def test_there_are_cases() -> None:
    assert {each.name.partition(".")[0] for each in CASES} >= {"schedule", "schedule-hard", "schedule-topology"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_it_agrees_with_the_real_scheduler(path: Path) -> None:
    outcomes = {number: compare(case).differences for number, case in enumerate(read_cases(path), start=1)}
    assert outcomes
    assert {number: differences for number, differences in outcomes.items() if differences} == {}


def test_a_pod_with_gates_is_not_tried_and_keeps_its_promise() -> None:
    gated = pod(schedulingGates=[{"name": "wait"}]) | {"status": {"nominatedNodeName": "n1"}}
    said = attempt(pod_of(gated), cluster_of([node("n0")]))
    assert (said.nodes, said.message, said.diagnosis) == (
        (),
        "Scheduling is blocked due to non-empty scheduling gates",
        None,
    )
    assert said.nominated_nodes == ("n1",)


def test_without_nodes_nothing_else_is_said() -> None:
    said = attempt(pod_of(pod(nodeSelector={"a": "b"})), cluster_of([]))
    assert (said.message, said.nominated_nodes) == ("no nodes available to schedule pods", ())


def test_a_node_promised_to_the_pod_is_taken_if_it_fits() -> None:
    promised = pod() | {"status": {"nominatedNodeName": "n1"}}
    assert attempt(pod_of(promised), cluster_of([node("n0"), node("n1")])).nodes == ("n1",)


def test_a_promised_node_is_named_with_the_plugin_that_turned_it_away() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    tried = pod(affinity=only, asks={"cpu": "2"}) | {"status": {"nominatedNodeName": "n0"}}
    said = decided([FULL, node("n1"), node("n2")], [], [], tried)
    assert said.message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]."
    )


@pytest.mark.parametrize(
    ("preferred", "said"),
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
def test_a_preference_that_is_none_matters_when_there_is_a_choice(preferred: Json, said: str) -> None:
    term = {"weight": 1, "preference": {"matchExpressions": [preferred]}}
    liking = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}})
    assert decided([node("n0")], [], [], liking).nodes == {"n0"}
    assert decided([node("n0"), node("n1")], [], [], liking).message == said


def test_a_node_must_declare_what_the_pod_cannot_do_without() -> None:
    able = node("n1") | {
        "status": {"allocatable": {"pods": "9"}, "declaredFeatures": ["UserNamespacesHostNetworkSupport"]}
    }
    needing = pod(hostNetwork=True, hostUsers=False)
    assert decided([node("n0"), able], [], [], needing).nodes == {"n1"}
    assert decided([node("n0")], [], [], needing).message == (
        f"0/1 nodes are available: 1 node(s) didn't match Pod's required features. {NOT_HELPFUL}"
    )


def test_a_class_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    cluster = whole([node("n0")], [], [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}])
    with pytest.raises(
        NoPriorityClassError, match="no PriorityClass with name hihg was found; there are high, system-"
    ):
        attempt(pod_of(pod(priorityClassName="hihg")), cluster)


def test_what_is_not_known_of_volumes_is_named_and_not_guessed() -> None:
    mounting = pod_of(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]))
    cluster = cluster_of([node("n0")])
    assert attempt(mounting, cluster).nodes == ("n0",)
    (unknown,) = list_unmodelled(mounting, cluster)
    assert unknown == "volumes: claims, volumes and storage classes of this cluster are not known"


def test_a_pod_without_volumes_asks_nothing_of_storage() -> None:
    empty = pod(volumes=[{"name": "v", "emptyDir": {}}])
    assert list_unmodelled(pod_of(empty), cluster_of([node("n0")])) == ()
