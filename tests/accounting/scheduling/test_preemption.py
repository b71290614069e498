"""Who is asked to leave, where, and what is said when nobody is."""

from typing import Any

import numpy as np
import pytest

from tests.accounting.scheduling.clusters import node, pod, pod_of
from tests.accounting.scheduling.deciding import attempt, whole
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import NodeIndices
from webhook.accounting.scheduling import filters as filtering
from webhook.accounting.scheduling.diagnosis import FilterStatus, mark_unschedulable
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.schedule import PreemptionResult, ScheduleResult

Json = dict[str, Any]

EARLY, MIDDLE, LATE = "2026-01-01T10:00:00Z", "2026-01-01T22:00:00Z", "2026-01-02T10:00:00Z"
LEAVING = {"deletionTimestamp": LATE}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def _pod(name: str, on: str, priority: int = 0, **more: Any) -> Json:
    """A pod of one cpu on a node."""
    status = {"startTime": more.pop("started", EARLY), "conditions": more.pop("conditions", [])}
    meta = more.pop("metadata", {})
    made = pod(name, on=on, priority=priority, asks={"cpu": more.pop("cpu", "1")}, **more)
    return made | {"metadata": made["metadata"] | meta, "status": status}


def _budget(app: str, allowed: int) -> Json:
    kind = {"kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"}}
    return kind | {"spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}}


def _said(nodes: list[Json], pods: list[Json], others: list[Json] | None = None, **new: Any) -> ScheduleResult:
    """What is said of a pod of priority 100 that asks for so much cpu, two by default."""
    asked = pod(
        "new", asks={"cpu": new.pop("cpu", "2")}, priority=100, **{k: v for k, v in new.items() if k != "status"}
    )
    return attempt(pod_of(asked | {"status": new.get("status", {})}), whole(nodes, pods, others or []))


def _came(said: ScheduleResult) -> PreemptionResult:
    assert said.preemption is not None
    return said.preemption


def _victims(said: ScheduleResult) -> list[str]:
    chosen = _came(said).selected
    assert chosen is not None
    return [each.name for each in chosen.victims]


def test_as_few_leave_as_can_and_nothing_is_added_to_the_sentence() -> None:
    said = _said([node("n0", cpu="3")], [_pod("a", "n0"), _pod("b", "n0", started=LATE), _pod("c", "n0", 100)])
    assert said.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert said.nominated_nodes == ("n0",)
    assert _victims(said) == ["a", "b"]


def test_the_more_important_stay_first() -> None:
    pods = [_pod("old", "n0"), _pod("young", "n0", started=LATE), _pod("higher", "n0", 5, started=LATE)]
    assert _victims(_said([node("n0", cpu="3")], pods, cpu="1")) == ["young"]
    assert _victims(_said([node("n0", cpu="3")], pods, cpu="2")) == ["old", "young"]


def test_of_pods_that_have_not_started_the_one_listed_first_counts_as_younger() -> None:
    pods = [_pod("first", "n0", started=None), _pod("second", "n0", started=None)]
    assert _victims(_said([node("n0", cpu="2")], pods, cpu="1")) == ["first"]


@pytest.mark.parametrize(("allowed", "victims"), [(0, ["plain"]), (1, ["kept"])])
def test_those_whose_leaving_breaks_a_budget_stay_first(allowed: int, victims: list[str]) -> None:
    kept = _pod("kept", "n0", labels={"app": "kept"}, started=LATE)
    said = _said([node("n0", cpu="2")], [kept, _pod("plain", "n0")], [_budget("kept", allowed)], cpu="1")
    assert _victims(said) == victims


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
def test_of_two_nodes_the_one_with_the_better_victims_is_nominated(one: list[Json], other: list[Json]) -> None:
    """All pods of a node have to leave; the second node is better."""
    pods = [
        _pod(f"{on}-{number}", on, cpu="100m", **each)
        for on, victims in {"n0": one, "n1": other}.items()
        for number, each in enumerate(victims)
    ]
    said = _said([node("n0", cpu="2"), node("n1", cpu="2")], pods, [_budget("kept", 0)])
    assert said.nominated_nodes == ("n1",)
    assert len(_victims(said)) == len(other)


def test_of_nodes_alike_each_may_be_chosen() -> None:
    said = _said([node("n0", cpu="2"), node("n1", cpu="2")], [_pod("a", "n0"), _pod("b", "n1")])
    assert said.nominated_nodes == ("n0", "n1")


def test_each_node_says_why_nobody_leaving_helps() -> None:
    nodes = [node("n0", cpu="2"), node("n1", cpu="1"), node("n2", cpu="3")]
    pods = [_pod("a", "n0", 100), _pod("b", "n2", 100, cpu="2"), _pod("c", "n2")]
    assert _said(nodes, pods).message == (
        "0/3 nodes are available: 3 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_drives_nobody_out_says_so_and_keeps_its_promise() -> None:
    status = {"nominatedNodeName": "n0"}
    said = _said([node("n0", cpu="2")], [_pod("a", "n0")], preemptionPolicy="Never", status=status)
    assert said.message.endswith("no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")
    assert said.nominated_nodes == ("n0",)


def test_while_victims_leave_no_others_are_sought() -> None:
    leaving = _pod("a", "n0", metadata=LEAVING, conditions=[PREEMPTED])
    nodes, status = [node("n0", cpu="2"), node("n1", cpu="2")], {"nominatedNodeName": "n0"}
    said = _said(nodes, [leaving, _pod("b", "n1")], status=status)
    assert said.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert said.nominated_nodes == ("n0",)


def test_one_victim_that_leaves_is_enough_for_no_others_to_be_sought() -> None:
    leaving = _pod("a", "n0", metadata=LEAVING, conditions=[PREEMPTED])
    nodes, status = [node("n0", cpu="2"), node("n1", cpu="2")], {"nominatedNodeName": "n0"}
    said = _said(nodes, [_pod("stays", "n0"), leaving, _pod("b", "n1")], status=status)
    assert said.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    ("on_nominated", "new"),
    [
        pytest.param({"conditions": [PREEMPTED]}, {}, id="a pod that does not leave yet"),
        pytest.param({"metadata": LEAVING}, {}, id="a pod that leaves without a reason"),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED | {"reason": "DeletionByTaintManager"}]},
            {},
            id="a pod that leaves for another reason",
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED | {"status": "False"}]}, {}, id="a pod that was spared"
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED], "priority": 100}, {}, id="a victim of the same priority"
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED], "priority": 101}, {}, id="a victim of a higher priority"
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED]},
            {"nodeSelector": {"host": "n1"}},
            id="a victim on a node that would not help",
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED]},
            {"status": {"nominatedNodeName": "n2"}},
            id="a victim on another node",
        ),
        pytest.param(
            {"metadata": LEAVING, "conditions": [PREEMPTED]},
            {"status": {"nominatedNodeName": "gone"}},
            id="a victim on another node than one that is gone",
        ),
    ],
)
def test_others_are_sought_unless_a_lesser_victim_leaves_the_nominated_node(on_nominated: Json, new: Json) -> None:
    nodes = [node(name, cpu="2") for name in ("n0", "n1", "n2")]
    pods = [_pod("a", "n0", **{"priority": 9} | on_nominated), _pod("b", "n1"), _pod("c", "n2", 9)]
    asked: Json = {"status": {"nominatedNodeName": "n0"}} | new
    said = _said(nodes, pods, **asked)
    assert said.nominated_nodes == ("n1",)
    assert _victims(said) == ["b"]


def test_a_node_promised_to_others_must_take_the_pod_beside_them() -> None:
    waiting = pod("rival", asks={"cpu": "1"}, priority=100) | {"status": {"nominatedNodeName": "n0"}}
    assert _said([node("n0", cpu="2")], [waiting], cpu="1").nodes
    said = _said([node("n0", cpu="2")], [waiting])
    assert said.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_promise_to_a_lesser_pod_is_passed_over() -> None:
    waiting = pod("rival", asks={"cpu": "2"}, priority=99) | {"status": {"nominatedNodeName": "n0"}}
    assert _said([node("n0", cpu="2")], [waiting]).nodes


def test_a_port_is_thought_free_when_one_of_two_that_have_it_is_thought_away() -> None:
    port = [{"containerPort": 80, "hostPort": 80}]
    pods = [_pod("low", "n0", ports=port), _pod("high", "n0", 100, ports=port)]
    assert _victims(_said([node("n0", cpu="9")], pods, ports=port)) == ["low"]


def test_of_many_nodes_the_scheduler_looks_at_some_and_so_may_choose_another() -> None:
    names = [f"n{number}" for number in range(130)]
    said = _said([node(name, cpu="2") for name in names], [_pod(f"p{name}", name) for name in names])
    assert len(_came(said).candidates) == 100  # minCandidateNodesAbsolute


def test_a_budget_that_selects_by_nonsense_protects_nobody() -> None:
    broken = _budget("kept", 0) | {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}}
    pods = [_pod("kept", "n0", labels={"app": "kept"}, started=LATE), _pod("plain", "n0")]
    assert _victims(_said([node("n0", cpu="2")], pods, [broken], cpu="1")) == ["kept"]


def test_the_scheduler_is_at_fault_when_all_can_stay_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own sentence for a filter that says one thing first and another later."""
    asked = []

    def reject_at_first(_pod: IncomingPod, _cluster: Cluster, places: NodeIndices) -> list[FilterStatus]:
        asked.append(places)
        return [mark_unschedulable("not yet", np.full(len(places), len(asked) == 1))]

    monkeypatch.setattr(filtering, "FILTERS", {"Hesitant": reject_at_first})
    said = _said([node("n0", cpu="9")], [_pod("a", "n0")], status={"nominatedNodeName": "n0"})
    assert said.message == (
        '0/1 nodes are available: 1 not yet. preemption: expected at least one victim pod on node "n0"'
    )
    assert said.nominated_nodes == ("n0",)


def test_a_cluster_is_as_it_was_though_a_filter_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = whole([node("n0", cpu="2")], [_pod("a", "n0"), _pod("b", "n0")], [])

    def fail_once_alone(*_: object) -> list[Any]:
        if not len(cluster.get_node_pods(0)):
            raise ZeroDivisionError
        return []

    filters = {**filtering.FILTERS, "Failing": fail_once_alone}
    monkeypatch.setattr(filtering, "FILTERS", filters)
    with pytest.raises(ZeroDivisionError):
        attempt(pod_of(pod("new", asks={"cpu": "2"}, priority=100)), cluster)
    assert [each.name for each in cluster.get_node_pods(0).values()] == ["a", "b"]
    assert cluster.nodes.get_used(0) == {"cpu": 2000}
    assert np.array_equal(cluster.nodes.get_indices(), [0])
