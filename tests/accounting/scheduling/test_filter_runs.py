"""The number of filter runs for one verdict: one for each relevant state of the cluster."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.scheduling import filters, schedule
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tallygate.accounting.scheduling.scoring import Scoring
from tallygate.accounting.scheduling.victims import select_victims_on_node
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import predict_pods
from tallygate.manifests.findings import FindingSubject
from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.effort import examples
from tests.gate import test_schedulability as gate
from tests.gate.gate_fixture import pod as gpu_pod
from tests.gate.test_workload_forecast import list_warnings, workload

Json = dict[str, Any]

_CPU_2, _CPU_9 = {"requests": {"cpu": "2"}}, {"requests": {"cpu": "9"}}
_ANTI_AFFINE: Json = {
    "labels": {"app": "a"},
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    },
}
_NODES = [node("a", cpu="4"), node("b", cpu="4")]


@pytest.fixture(name="count_runs")
def create_counter(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a counter of the runs for the first pod; runs for pods that a remedy changed have another object."""
    pods: list[IncomingPod] = []

    def record(pod: IncomingPod, _cluster: object) -> None:
        pods.append(pod)

    monkeypatch.setattr(filters, "PRE_FILTERS", (record, *filters.PRE_FILTERS))
    return lambda: sum(each is pods[0] for each in pods)


@pytest.mark.parametrize("with_node_lines", [False, True])
@pytest.mark.parametrize(
    ("spec", "count", "runs"),
    [
        pytest.param(_CPU_2, 1, 1, id="a pod that fits"),
        pytest.param(_CPU_9, 1, 1, id="a pod that fits nowhere"),
        pytest.param(_CPU_2, 4, 1, id="copies that all fit"),
        pytest.param(_CPU_2, 5, 2, id="copies of which some fit"),
        pytest.param(_ANTI_AFFINE, 2, 1, id="copies with anti-affinity that all fit"),
        pytest.param(_ANTI_AFFINE, 3, 2, id="copies with anti-affinity of which some fit"),
        pytest.param(_CPU_2, None, 1, id="a pod for each node"),
        pytest.param(_CPU_9, None, 1, id="a pod for each node that fits nowhere"),
        pytest.param({"schedulingGates": [{"name": "hold"}]}, 1, 1, id="a pod with gates"),
    ],
)
def test_predict_runs_the_filters_once_for_each_state(
    count_runs: Callable[[], int], spec: Json, count: int | None, runs: int, *, with_node_lines: bool
) -> None:
    cluster = create_cluster(_NODES)
    pods = PodsToPlace(FindingSubject(kind="Pod", name="p"), decode_pod(pod(**spec)), count)
    with open_placement_session(cluster) as session:
        predict_pods(pods, cluster, session, Scoring(), with_node_lines=with_node_lines)
    assert count_runs() == runs


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        pytest.param(_CPU_2, 1, id="copies that are counted"),
        pytest.param(_ANTI_AFFINE, 2, id="copies that are placed"),
        pytest.param(_ANTI_AFFINE | _CPU_9, 1, id="copies that fit nowhere"),
    ],
)
def test_headroom_runs_the_filters_once_for_each_state(count_runs: Callable[[], int], spec: Json, runs: int) -> None:
    compute_remaining_capacity(IncomingPod.from_pod(decode_pod(pod(**spec))), create_cluster(_NODES))
    assert count_runs() == runs


@pytest.mark.parametrize(
    ("body", "request_fields", "runs"),
    [
        pytest.param(gpu_pod("u", 2), gate.POD, 1, id="a pod that fits"),
        pytest.param(gpu_pod("u", 4), gate.POD, 1, id="a pod that fits nowhere now"),
        pytest.param(gpu_pod("u", 1, nodeSelector={"a": "b"}), gate.POD, 1, id="a pod that never fits"),
        pytest.param(workload(1, replicas=3), {}, 1, id="replicas that all fit"),
        pytest.param(workload(2, replicas=3), {}, 2, id="replicas of which some fit"),
    ],
)
def test_the_gate_runs_the_filters_once_for_each_state(
    count_runs: Callable[[], int], body: Json, request_fields: Json, runs: int
) -> None:
    cluster = gate.cluster(4, 4)
    gate.place_pod(cluster, "a", 2)
    gate.place_pod(cluster, "b", 1)
    list_warnings(gate.create_fixture(cluster, gate.NOT_NOW, "warn"), body, **request_fields)
    assert count_runs() == runs


def test_the_gate_tries_preemption_on_a_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def record(pod: IncomingPod, cluster: Any, node_index: int) -> Any:
        tried.append(node_index)
        return select_victims_on_node(pod, cluster, node_index)

    monkeypatch.setattr(schedule, "select_victims_on_node", record)
    high = [pod(f"high-{name}", on=name, labels={"app": "a"}, priority=9) for name in "ab"]
    low = [pod(f"low-{name}", on=name, requests={"cpu": "1"}) for name in "ab"]
    for each in high:
        each["metadata"]["namespace"] = "team-a"
    fixture = gate.create_fixture(create_cluster(_NODES, [*high, *low]), gate.NOT_NOW, "warn")
    (warning,) = list_warnings(fixture, pod("new", priority=5, **_ANTI_AFFINE) | {"kind": "Pod"}, **gate.POD)
    assert "TG114" in warning
    assert sorted(tried) == [0, 1]


@settings(max_examples=examples(100), deadline=None)
@given(draws.nodes(), draws.incoming_pods(), st.sets(st.integers(0, 4)), st.data())
def test_a_restricted_diagnosis_equals_a_diagnosis_of_only_those_nodes(
    nodes: list[Json], drawn: Json, chosen: set[int], data: st.DataObject
) -> None:
    for each in nodes:
        each["status"] = {"allocatable": {"pods": data.draw(st.sampled_from(["0", "1", "9"]))}}
    stored = draws.pods_on_nodes(st.sampled_from(draws.NODES))
    pods = [
        each | {"metadata": each["metadata"] | {"uid": f"u{number}"}}
        for number, each in enumerate(data.draw(st.lists(stored, max_size=6)))
    ]
    cluster, incoming = create_cluster(nodes, pods), IncomingPod.from_pod(decode_pod(drawn))
    all_nodes = cluster.nodes.get_indices()
    targets = all_nodes[[each in chosen for each in all_nodes.tolist()]]
    restricted, alone = run_filters(incoming, cluster).restrict_to(targets), run_filters(incoming, cluster, targets)
    assert restricted.pre_filter_status == alone.pre_filter_status
    assert [restricted.reasons(each) for each in targets.tolist()] == [alone.reasons(each) for each in targets.tolist()]
    assert restricted.feasible.tolist() == alone.feasible.tolist()
    assert restricted.resolvable.tolist() == alone.resolvable.tolist()
    assert restricted.count_reasons() == +alone.count_reasons()
