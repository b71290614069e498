"""Remaining capacity: the count of copies by node agrees with placing them one by one."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.scheduling.diagnosis import format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.remaining_capacity import RemainingCapacity, compute_remaining_capacity
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.effort import examples

_BANANA = "example.com_banana"
Object = dict[str, Any]


def _compute_capacity(nodes: list[Object], pods: list[Object], **written: Any) -> RemainingCapacity:
    return compute_remaining_capacity(
        IncomingPod.from_pod(decode_pod(pod("new", **written))), create_cluster(nodes, pods)
    )


def test_copies_are_counted_by_node_with_the_limiting_reasons() -> None:
    nodes = [node("a", cpu="4", **{_BANANA: "5"}), node("b", cpu="1", **{_BANANA: "9"}), node("c")]
    capacity = _compute_capacity(
        nodes, [pod("old", on="a", requests={_BANANA: "2"})], requests={_BANANA: "1", "cpu": "1"}
    )
    assert (capacity.copies_by_node, capacity.total) == ({"a": 3, "b": 1}, 4)
    assert capacity.message == "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient example.com/banana."
    assert capacity.limiting_reasons == {"Insufficient cpu": 2, "Insufficient example.com/banana": 2}


def test_each_node_takes_one_copy_with_a_host_port() -> None:
    capacity = _compute_capacity([node("a"), node("b")], [], ports=[{"containerPort": 80, "hostPort": 80}])
    assert capacity.copies_by_node == {"a": 1, "b": 1}
    assert capacity.message == "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."


def test_a_cluster_without_nodes_has_no_capacity() -> None:
    assert _compute_capacity([], []).message == "no nodes available to schedule pods"


def test_a_pod_that_the_pre_filter_rejects_has_no_capacity() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    capacity = _compute_capacity([node("a"), node("b")], [], affinity=affinity)
    assert (capacity.total, capacity.message) == (
        0,
        "0/2 nodes are available: pod affinity terms conflict.",
    )


_AMOUNTS = st.integers(0, 6)
_ALLOCATABLE = st.fixed_dictionaries({"cpu": _AMOUNTS, _BANANA: _AMOUNTS, "pods": st.integers(0, 6)})
_REQUESTS = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 3), _BANANA: st.integers(0, 3)})
_POD = st.fixed_dictionaries(
    {"on": st.integers(0, 3), "requests": _REQUESTS, "nominated": st.booleans(), "priority": st.integers(0, 2)}
)


def _create_existing_pod(number: int, drawn: Object, nodes: int) -> Object:
    requests = {name: str(amount) for name, amount in drawn["requests"].items()}
    node_name = f"n{drawn['on'] % nodes}"
    made = pod(f"p{number}", on="" if drawn["nominated"] else node_name, requests=requests, priority=drawn["priority"])
    return made | ({"status": {"nominatedNodeName": node_name}} if drawn["nominated"] else {})


@given(
    st.lists(_ALLOCATABLE, min_size=1, max_size=4),
    st.lists(_POD, max_size=6),
    st.fixed_dictionaries(
        {"requests": _REQUESTS, "priority": st.integers(0, 2), "port": st.booleans(), "has_selector": st.booleans()}
    ),
)
@settings(max_examples=examples(300), deadline=None)
def test_the_count_agrees_with_placement(allocatables: list[Object], existing: list[Object], incoming: Object) -> None:
    """Compare the count, the message and the cluster afterwards."""
    nodes = [
        node(f"n{number}", **{name: str(amount) for name, amount in allocatable.items()})
        for number, allocatable in enumerate(allocatables)
    ]
    cluster = create_cluster(
        nodes, [_create_existing_pod(number, drawn, len(nodes)) for number, drawn in enumerate(existing)]
    )
    requests = {name: str(amount) for name, amount in incoming["requests"].items()}
    ports = [{"containerPort": 80, "hostPort": 80}] if incoming["port"] else []
    selector: Object = {"nodeSelector": {"host": "n0"}} if incoming["has_selector"] else {}
    new = IncomingPod.from_pod(
        decode_pod(pod("new", requests=requests, ports=ports, priority=incoming["priority"], **selector))
    )
    before = len(cluster)
    capacity = compute_remaining_capacity(new, cluster)
    with open_placement_session(cluster) as session:
        placement = session.place(new, 1000, run_filters(new, cluster))
        assert capacity.copies_by_node == Counter(cluster.nodes.get_name(each) for each in placement.nodes)
        assert placement.unplaced is not None
        assert capacity.message == format_fit_error(placement.unplaced) == format_fit_error(run_filters(new, cluster))
    assert len(cluster) == before
