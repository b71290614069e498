"""How many more copies there is room for: counted node by node it is what placing them one by one gives."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.effort import examples
from webhook.accounting.scheduling.diagnosis import format_fit_error
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.placement import open_placement_session
from webhook.accounting.scheduling.remaining_capacity import RemainingCapacity, compute_remaining_capacity

_BANANA = "example.com_banana"
Object = dict[str, Any]


def _room(nodes: list[Object], pods: list[Object], **written: Any) -> RemainingCapacity:
    return compute_remaining_capacity(IncomingPod.from_pod(pod_of(pod("new", **written))), cluster_of(nodes, pods))


def test_each_node_is_counted_and_what_is_full_is_told() -> None:
    nodes = [node("a", cpu="4", **{_BANANA: "5"}), node("b", cpu="1", **{_BANANA: "9"}), node("c")]
    found = _room(nodes, [pod("old", on="a", asks={_BANANA: "2"})], asks={_BANANA: "1", "cpu": "1"})
    assert (found.copies_by_node, found.total) == ({"a": 3, "b": 1}, 4)
    assert found.message == "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient example.com/banana."
    assert found.limiting_reasons == {"Insufficient cpu": 2, "Insufficient example.com/banana": 2}


def test_a_port_is_taken_once_on_each_node() -> None:
    found = _room([node("a"), node("b")], [], ports=[{"containerPort": 80, "hostPort": 80}])
    assert found.copies_by_node == {"a": 1, "b": 1}
    assert found.message == "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."


def test_without_nodes_there_is_none() -> None:
    assert _room([], []).message == "no nodes available to schedule pods"


def test_a_pod_that_is_refused_has_no_room() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = _room([node("a"), node("b")], [], affinity=affinity)
    assert (found.total, found.message) == (
        0,
        "0/2 nodes are available: pod affinity terms conflict.",
    )


_AMOUNTS = st.integers(0, 6)
_HAS = st.fixed_dictionaries({"cpu": _AMOUNTS, _BANANA: _AMOUNTS, "pods": st.integers(0, 6)})
_ASKS = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 3), _BANANA: st.integers(0, 3)})
_POD = st.fixed_dictionaries(
    {"on": st.integers(0, 3), "asks": _ASKS, "promised": st.booleans(), "priority": st.integers(0, 2)}
)


def _written(number: int, drawn: Object, nodes: int) -> Object:
    asks = {name: str(amount) for name, amount in drawn["asks"].items()}
    where = f"n{drawn['on'] % nodes}"
    made = pod(f"p{number}", on="" if drawn["promised"] else where, asks=asks, priority=drawn["priority"])
    return made | ({"status": {"nominatedNodeName": where}} if drawn["promised"] else {})


@given(
    st.lists(_HAS, min_size=1, max_size=4),
    st.lists(_POD, max_size=6),
    st.fixed_dictionaries(
        {"asks": _ASKS, "priority": st.integers(0, 2), "port": st.booleans(), "picky": st.booleans()}
    ),
)
@settings(max_examples=examples(300), deadline=None)
def test_counting_and_placing_give_the_same(rooms: list[Object], there: list[Object], wanted: Object) -> None:
    """The room, the sentence, and the cluster as it was."""
    nodes = [
        node(f"n{number}", **{name: str(amount) for name, amount in has.items()}) for number, has in enumerate(rooms)
    ]
    cluster = cluster_of(nodes, [_written(number, drawn, len(nodes)) for number, drawn in enumerate(there)])
    asks = {name: str(amount) for name, amount in wanted["asks"].items()}
    ports = [{"containerPort": 80, "hostPort": 80}] if wanted["port"] else []
    selector: Object = {"nodeSelector": {"host": "n0"}} if wanted["picky"] else {}
    new = IncomingPod.from_pod(pod_of(pod("new", asks=asks, ports=ports, priority=wanted["priority"], **selector)))
    before = len(cluster)
    found = compute_remaining_capacity(new, cluster)
    with open_placement_session(cluster) as visit:
        placement = visit.place(new, 1000, run_filters(new, cluster))
        assert found.copies_by_node == Counter(cluster.nodes.get_name(each) for each in placement.nodes)
        assert placement.unplaced is not None
        assert found.message == format_fit_error(placement.unplaced) == format_fit_error(run_filters(new, cluster))
    assert len(cluster) == before
