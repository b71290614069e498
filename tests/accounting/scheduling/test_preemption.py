"""Preemption: victims, nominated nodes, and the message when no pod is preempted."""

from typing import Any

import numpy as np
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.scheduling import filters as filtering
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unschedulable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.schedule import PreemptionResult, ScheduleResult
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster

Json = dict[str, Any]

EARLY, MIDDLE, LATE = "2026-01-01T10:00:00Z", "2026-01-01T22:00:00Z", "2026-01-02T10:00:00Z"
TERMINATING = {"deletionTimestamp": LATE}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def _pod(name: str, on: str, priority: int = 0, **more: Any) -> Json:
    """Return a pod of one cpu on a node."""
    status = {"startTime": more.pop("started", EARLY), "conditions": more.pop("conditions", [])}
    meta = more.pop("metadata", {})
    bound_pod = pod(name, on=on, priority=priority, requests={"cpu": more.pop("cpu", "1")}, **more)
    return bound_pod | {"metadata": bound_pod["metadata"] | meta, "status": status}


def _budget(app: str, allowed: int) -> Json:
    kind = {"kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"}}
    return kind | {"spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}}


def _schedule(nodes: list[Json], pods: list[Json], others: list[Json] | None = None, **new: Any) -> ScheduleResult:
    """Return the result for a pod of priority 100 that requests `cpu`, two by default."""
    new_pod = pod(
        "new", requests={"cpu": new.pop("cpu", "2")}, priority=100, **{k: v for k, v in new.items() if k != "status"}
    )
    return attempt(
        decode_pod(new_pod | {"status": new.get("status", {})}), create_full_cluster(nodes, pods, others or [])
    )


def _get_preemption(result: ScheduleResult) -> PreemptionResult:
    assert result.preemption is not None
    return result.preemption


def _list_victims(result: ScheduleResult) -> list[str]:
    chosen = _get_preemption(result).selected
    assert chosen is not None
    return [each.name for each in chosen.victims]


def test_as_few_pods_as_possible_are_preempted() -> None:
    result = _schedule([node("n0", cpu="3")], [_pod("a", "n0"), _pod("b", "n0", started=LATE), _pod("c", "n0", 100)])
    assert result.nominated_nodes == ("n0",)
    assert _list_victims(result) == ["a", "b"]


def test_the_more_important_pods_are_reprieved_first() -> None:
    pods = [_pod("old", "n0"), _pod("young", "n0", started=LATE), _pod("higher", "n0", 5, started=LATE)]
    assert _list_victims(_schedule([node("n0", cpu="3")], pods, cpu="1")) == ["young"]
    assert _list_victims(_schedule([node("n0", cpu="3")], pods, cpu="2")) == ["old", "young"]


@pytest.mark.parametrize(("allowed", "victims"), [(0, ["plain"]), (1, ["kept"])])
def test_pods_whose_eviction_breaks_a_budget_are_reprieved_first(allowed: int, victims: list[str]) -> None:
    kept = _pod("kept", "n0", labels={"app": "kept"}, started=LATE)
    result = _schedule([node("n0", cpu="2")], [kept, _pod("plain", "n0")], [_budget("kept", allowed)], cpu="1")
    assert _list_victims(result) == victims


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([{"labels": {"app": "kept"}}], [{"priority": 9}], id="fewer broken budgets before priority"),
        pytest.param([{"labels": {"app": "kept"}}], [{}, {}], id="fewer broken budgets before fewer victims"),
        pytest.param([{"priority": 9}], [{"priority": 8}], id="a lower highest priority"),
        pytest.param(
            [{"priority": 9}], [{"priority": 8}, {"priority": 8}], id="a lower highest priority before the sum"
        ),
        pytest.param([{"priority": 9}, {"priority": 5}], [{"priority": 9}, {}], id="a smaller sum of priorities"),
        pytest.param([{}, {}], [{}, {"priority": -9}], id="a smaller sum with a negative priority"),
        pytest.param(
            [{}, {}],
            [{}, {"priority": -(1 << 30)}, {"priority": -(1 << 30) - 1}],
            id="a smaller sum before fewer victims",
        ),
        pytest.param(
            [{"priority": -9}, {"priority": -9}], [{"priority": -9}], id="fewer victims of a negative priority"
        ),
        pytest.param([{}, {"priority": -(1 << 31)}], [{}], id="fewer victims of the same sum"),
        pytest.param(
            [{"started": LATE}, {"started": LATE, "priority": -(1 << 31)}],
            [{"started": EARLY}],
            id="fewer victims of the same sum before a later start",
        ),
        pytest.param(
            [{"started": LATE}, {"started": LATE}], [{"started": EARLY}], id="a smaller sum before a later start"
        ),
        pytest.param([{"started": EARLY}], [{"started": LATE}], id="a later start"),
        pytest.param(
            [{"started": EARLY}, {"started": LATE}],
            [{"started": MIDDLE}, {"started": MIDDLE}],
            id="a later first start",
        ),
        pytest.param(
            [{"priority": 9, "started": EARLY}, {"started": LATE}],
            [{"priority": 9, "started": MIDDLE}, {"started": EARLY}],
            id="a later start of the highest priority",
        ),
    ],
)
def test_the_node_with_the_better_victims_is_nominated(one: list[Json], other: list[Json]) -> None:
    """Preempt all pods of a node; the second node is better."""
    pods = [
        _pod(f"{on}-{number}", on, cpu="100m", **each)
        for on, victims in {"n0": one, "n1": other}.items()
        for number, each in enumerate(victims)
    ]
    result = _schedule([node("n0", cpu="2"), node("n1", cpu="2")], pods, [_budget("kept", 0)])
    assert result.nominated_nodes == ("n1",)
    assert len(_list_victims(result)) == len(other)


def test_each_of_equal_nodes_may_be_nominated() -> None:
    result = _schedule([node("n0", cpu="2"), node("n1", cpu="2")], [_pod("a", "n0"), _pod("b", "n1")])
    assert result.nominated_nodes == ("n0", "n1")


def test_each_node_reports_why_preemption_does_not_help() -> None:
    nodes = [node("n0", cpu="2"), node("n1", cpu="1"), node("n2", cpu="3")]
    pods = [_pod("a", "n0", 100), _pod("b", "n2", 100, cpu="2"), _pod("c", "n2")]
    assert _schedule(nodes, pods).message == (
        "0/3 nodes are available: 3 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_never_preempts_keeps_its_nomination() -> None:
    status = {"nominatedNodeName": "n0"}
    result = _schedule([node("n0", cpu="2")], [_pod("a", "n0")], preemptionPolicy="Never", status=status)
    assert result.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert result.nominated_nodes == ("n0",)


def test_terminating_victims_stop_further_preemption() -> None:
    terminating = _pod("a", "n0", metadata=TERMINATING, conditions=[PREEMPTED])
    nodes, status = [node("n0", cpu="2"), node("n1", cpu="2")], {"nominatedNodeName": "n0"}
    result = _schedule(nodes, [terminating, _pod("b", "n1")], status=status)
    assert result.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert result.nominated_nodes == ("n0",)


def test_one_terminating_victim_stops_further_preemption() -> None:
    terminating = _pod("a", "n0", metadata=TERMINATING, conditions=[PREEMPTED])
    nodes, status = [node("n0", cpu="2"), node("n1", cpu="2")], {"nominatedNodeName": "n0"}
    result = _schedule(nodes, [_pod("stays", "n0"), terminating, _pod("b", "n1")], status=status)
    assert result.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    ("on_nominated", "new"),
    [
        pytest.param({"conditions": [PREEMPTED]}, {}, id="a pod that is not terminating yet"),
        pytest.param({"metadata": TERMINATING}, {}, id="a pod that terminates without a reason"),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED | {"reason": "DeletionByTaintManager"}]},
            {},
            id="a pod that terminates for another reason",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED | {"status": "False"}]},
            {},
            id="a pod whose condition is false",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED], "priority": 100},
            {},
            id="a victim of the same priority",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED], "priority": 101},
            {},
            id="a victim of a higher priority",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED]},
            {"nodeSelector": {"host": "n1"}},
            id="a victim on a node that would not help",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED]},
            {"status": {"nominatedNodeName": "n2"}},
            id="a victim on another node",
        ),
        pytest.param(
            {"metadata": TERMINATING, "conditions": [PREEMPTED]},
            {"status": {"nominatedNodeName": "missing"}},
            id="a victim on another node than the missing nominated node",
        ),
    ],
)
def test_preemption_goes_on_unless_a_victim_terminates_on_the_nominated_node(on_nominated: Json, new: Json) -> None:
    nodes = [node(name, cpu="2") for name in ("n0", "n1", "n2")]
    pods = [_pod("a", "n0", **{"priority": 9} | on_nominated), _pod("b", "n1"), _pod("c", "n2", 9)]
    fields: Json = {"status": {"nominatedNodeName": "n0"}} | new
    result = _schedule(nodes, pods, **fields)
    assert result.nominated_nodes == ("n1",)
    assert _list_victims(result) == ["b"]


def test_a_pod_must_fit_beside_nominated_pods() -> None:
    nominated = pod("rival", requests={"cpu": "1"}, priority=100) | {"status": {"nominatedNodeName": "n0"}}
    assert _schedule([node("n0", cpu="2")], [nominated], cpu="1").nodes
    result = _schedule([node("n0", cpu="2")], [nominated])
    assert result.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_nominated_pod_of_a_lower_priority_is_ignored() -> None:
    nominated = pod("rival", requests={"cpu": "2"}, priority=99) | {"status": {"nominatedNodeName": "n0"}}
    assert _schedule([node("n0", cpu="2")], [nominated]).nodes


def test_a_shared_port_is_free_when_one_of_its_two_users_is_removed() -> None:
    port = [{"containerPort": 80, "hostPort": 80}]
    pods = [_pod("low", "n0", ports=port), _pod("high", "n0", 100, ports=port)]
    assert _list_victims(_schedule([node("n0", cpu="9")], pods, ports=port)) == ["low"]


def test_preemption_tries_a_limited_number_of_candidates() -> None:
    names = [f"n{number}" for number in range(130)]
    result = _schedule([node(name, cpu="2") for name in names], [_pod(f"p{name}", name) for name in names])
    assert len(_get_preemption(result).candidates) == 100  # minCandidateNodesAbsolute


def test_a_budget_with_an_invalid_selector_protects_no_pod() -> None:
    broken = _budget("kept", 0) | {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}}
    pods = [_pod("kept", "n0", labels={"app": "kept"}, started=LATE), _pod("plain", "n0")]
    assert _list_victims(_schedule([node("n0", cpu="2")], pods, [broken], cpu="1")) == ["kept"]


def test_a_reprieve_of_all_victims_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use kube-scheduler's message for a filter with inconsistent results."""
    calls = []

    def reject_at_first(_pod: IncomingPod, _cluster: Cluster, indices: NodeIndices) -> list[FilterStatus]:
        calls.append(indices)
        return [mark_unschedulable("not yet", np.full(len(indices), len(calls) == 1))]

    monkeypatch.setattr(filtering, "FILTERS", {"Hesitant": reject_at_first})
    result = _schedule([node("n0", cpu="9")], [_pod("a", "n0")], status={"nominatedNodeName": "n0"})
    assert result.message == (
        '0/1 nodes are available: 1 not yet. preemption: expected at least one victim pod on node "n0"'
    )
    assert result.nominated_nodes == ("n0",)


def test_a_failing_filter_leaves_the_cluster_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = create_full_cluster([node("n0", cpu="2")], [_pod("a", "n0"), _pod("b", "n0")], [])

    def fail_once_alone(*_: object) -> list[Any]:
        if not len(cluster.get_node_pods(0)):
            raise ZeroDivisionError
        return []

    filters = {**filtering.FILTERS, "Failing": fail_once_alone}
    monkeypatch.setattr(filtering, "FILTERS", filters)
    with pytest.raises(ZeroDivisionError):
        attempt(decode_pod(pod("new", requests={"cpu": "2"}, priority=100)), cluster)
    assert [each.name for each in cluster.get_node_pods(0).values()] == ["a", "b"]
    assert cluster.nodes.get_used(0) == {"cpu": 2000}
    assert np.array_equal(cluster.nodes.get_indices(), [0])
