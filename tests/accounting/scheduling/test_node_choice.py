"""The node that kube-scheduler chooses among the feasible ones, and the nodes on which it fails to bind a pod."""

from collections.abc import Sequence
from typing import Any

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.device_scores import score_devices
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_choices
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    predict_copies,
    predict_daemon_set,
    predict_quickly,
)
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import (
    claim,
    claim_template,
    device,
    device_class,
    device_slice,
    request,
)
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, place_copies

_LARGE, _SMALL = (
    f'device.capacity["gpu.example.com"].memory.compareTo(quantity("{memory}")) == 0' for memory in ("80Gi", "16Gi")
)
_BACKED = "example.com/gpu"
_NO_MAPPINGS = (
    'running PreBind plugin "DynamicResources": nil or empty request mappings, '
    "no update of pod default/new ExtendedResourceClaimStatus"
)
_NODES = [node(name, cpu="4", memory="8Gi") for name in "abc"]
_SLICES = [
    device_slice("a", [device("a0", "16Gi")]),
    device_slice("b", [device("b0", "80Gi"), device("b1", "16Gi")]),
    device_slice("c", [device("c0", "80Gi"), device("c1", "80Gi")]),
]


def _prefer(name: str, *selectors: str) -> dict[str, Any]:
    alternatives = [{**request(f"s{index}", selectors=[each])["exactly"]} for index, each in enumerate(selectors)]
    named = [{"name": f"s{index}", **each} for index, each in enumerate(alternatives)]
    return {"name": name, "firstAvailable": named}


def _pod(*names: str, **spec: Any) -> dict[str, Any]:
    return pod("new", resourceClaims=[{"name": each, "resourceClaimName": each} for each in names], **spec)


def _choose(cluster: Cluster, written: dict[str, Any]) -> tuple[dict[str, int], set[str]]:
    """Return the score of each feasible node by its devices, and the nodes that may be chosen."""
    incoming = IncomingPod.from_pod(decode_pod(written))
    feasible = run_filters(incoming, cluster).feasible
    scores = score_devices(incoming, cluster, feasible).tolist()
    names = [cluster.nodes.get_name(index) for index in feasible.tolist()]
    chosen = {cluster.nodes.get_name(index) for index in find_choices(incoming, cluster, feasible).tolist()}
    return dict(zip(names, scores, strict=True)), chosen


@pytest.mark.parametrize(
    ("claims", "scores", "chosen"),
    [
        pytest.param([claim("c")], {"a": 0, "b": 0, "c": 0}, {"a", "b", "c"}, id="no alternatives"),
        pytest.param(
            [claim("c", _prefer("r", _LARGE, _SMALL))],
            {"a": 174, "b": 200, "c": 200},
            {"b", "c"},
            id="two nodes have the first alternative",
        ),
        pytest.param(
            [claim("c", _prefer("r", "false", _SMALL, _LARGE))],
            {"a": 200, "b": 200, "c": 170},
            {"a", "b"},
            id="the second alternative is better than the third",
        ),
        pytest.param(
            [claim("c", _prefer("r", _SMALL, _LARGE), _prefer("s", _LARGE))],
            {"b": 200, "c": 186},
            {"b"},
            id="the scores of requests are added",
        ),
        pytest.param(
            [claim("c", _prefer("r", _LARGE, _SMALL)), claim("d", _prefer("r", _SMALL), allocated=["a/a0"])],
            {"b": 200, "c": 200},
            {"b", "c"},
            id="another pod has a device",
        ),
    ],
)
def test_the_first_alternatives_score_most(
    claims: Sequence[dict[str, Any]], scores: dict[str, int], chosen: set[str]
) -> None:
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, *claims])
    assert _choose(cluster, _pod("c")) == (scores, chosen)


def test_an_allocated_claim_with_alternatives_counts_beside_one_without_devices() -> None:
    """Score (8 + 8), (8 + 7): without the allocated claim it would be 8 to 7."""
    has = claim("has", _prefer("r", "true"), allocated=["x/x0"])
    has["status"]["allocation"]["devices"]["results"][0]["request"] = "r/s0"
    del has["status"]["allocation"]["nodeSelector"]
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, has, claim("c", _prefer("r", _LARGE, _SMALL))])
    assert _choose(cluster, _pod("has", "c"))[0] == {"a": 2 * (100 * 15 // 16), "b": 200, "c": 200}


@pytest.mark.parametrize(
    "preference",
    [
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
                        ]
                    }
                }
            },
            id="preferred node affinity",
        ),
        pytest.param({"affinity": {"podAffinity": {}}}, id="pod affinity"),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                ]
            },
            id="soft spread",
        ),
    ],
)
def test_a_preference_may_lead_to_each_feasible_node(preference: dict[str, Any]) -> None:
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, claim("c", _prefer("r", _LARGE, _SMALL))])
    assert _choose(cluster, _pod("c", **preference))[1] == {"a", "b", "c"}


def test_a_soft_taint_may_lead_to_each_feasible_node_unless_the_pod_tolerates_it() -> None:
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    nodes = [_NODES[0] | {"spec": {"taints": [taint]}}, *_NODES[1:]]
    cluster = create_full_cluster(nodes, [], [device_class(), *_SLICES, claim("c", _prefer("r", _LARGE, _SMALL))])
    assert _choose(cluster, _pod("c"))[1] == {"a", "b", "c"}
    assert _choose(cluster, _pod("c", tolerations=[{"key": "old", "operator": "Exists"}]))[1] == {"b", "c"}


def test_copies_go_where_their_devices_score_most_until_these_are_used() -> None:
    written = pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    del written["metadata"]["uid"]
    cluster = create_full_cluster(
        _NODES, [], [device_class(), *_SLICES, claim_template("t", _prefer("r", _LARGE, _SMALL))]
    )
    placed = place_copies(decode_pod(written), cluster, 9)
    names = [cluster.nodes.get_name(each) for each in placed.nodes]
    assert names[:3] == ["b", "c", "c"]
    assert sorted(names[3:]) == ["a", "b"]


def _predict(cluster: Cluster, written: dict[str, Any], count: int = 1) -> Prediction:
    incoming = IncomingPod.from_pod(decode_pod(written))
    with open_placement_session(cluster) as session:
        return predict_copies(incoming, cluster, session, count, run_filters(incoming, cluster))


def _create_own_and_backed(own_cpu: str, backed_cpu: str) -> Cluster:
    """Create a node that has the extended resource itself, where the binding fails, and one where devices back it."""
    return create_full_cluster(
        [
            node("own", cpu=own_cpu, memory="8Gi", **{"example.com_gpu": "4"}),
            node("backed", cpu=backed_cpu, memory="8Gi"),
        ],
        [],
        [
            device_class(resource=_BACKED),
            device_class("net", '"memory" in device.capacity["gpu.example.com"]'),
            device_slice("backed", ["d0", "d1"]),
            device_slice("net", [device("n0", "1Gi"), device("n1", "1Gi")], allNodes=True),
            claim("c", request(of="net")),
        ],
    )


@pytest.mark.parametrize(
    ("cpus", "feasibility", "nodes", "message", "bind_errors"),
    [
        pytest.param(("4", "8"), Feasibility.NOW, ("backed",), "", {}, id="the better node binds it"),
        pytest.param(("8", "4"), Feasibility.NOT_NOW, (), _NO_MAPPINGS, {}, id="the better one fails"),
        pytest.param(("8", "8"), Feasibility.NOW, ("backed",), "", {"own": _NO_MAPPINGS}, id="one of two equal ones"),
    ],
)
def test_the_chosen_node_decides_whether_the_binding_fails(
    cpus: tuple[str, str],
    feasibility: Feasibility,
    nodes: tuple[str, ...],
    message: str,
    bind_errors: dict[str, str],
) -> None:
    cluster = _create_own_and_backed(*cpus)
    written = _pod("c", requests={"cpu": "1", "memory": "1Gi", _BACKED: "1"})
    prediction = _predict(cluster, written)
    assert (prediction.feasibility, prediction.nodes, prediction.message) == (feasibility, nodes, message)
    assert prediction.bind_errors == bind_errors
    result = attempt(decode_pod(written), cluster)
    assert (set(result.nodes), result.message) == ({"own", "backed"} if nodes else set(), message)
    incoming = IncomingPod.from_pod(decode_pod(written))
    assert predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)).feasibility is feasibility
    assert bool(compute_remaining_capacity(incoming, cluster).total) is bool(nodes)
    if message:
        assert compute_remaining_capacity(incoming, cluster).message == message


def test_a_pod_that_prefers_nodes_may_reach_one_on_which_the_binding_fails() -> None:
    written = _pod("c", requests={"cpu": "1", _BACKED: "1"}, affinity={"podAffinity": {}})
    prediction = _predict(_create_own_and_backed("4", "8"), written)
    assert (prediction.feasibility, prediction.nodes) == (Feasibility.NOW, ("backed",))
    assert prediction.bind_errors == {"own": _NO_MAPPINGS}


def test_a_nominated_node_is_the_choice() -> None:
    written = _pod("c", requests={"cpu": "1", _BACKED: "1"}) | {"status": {"nominatedNodeName": "own"}}
    result = attempt(decode_pod(written), _create_own_and_backed("4", "8"))
    assert (result.nodes, result.message) == ((), _NO_MAPPINGS)


def test_a_daemon_set_lacks_the_pod_whose_binding_fails() -> None:
    cluster = _create_own_and_backed("8", "8")
    incoming = IncomingPod.from_pod(decode_pod(_pod("c", requests={_BACKED: "1"})))
    prediction = predict_daemon_set(incoming, cluster, run_filters(incoming, cluster))
    assert (prediction.feasibility, prediction.nodes, prediction.count) == (Feasibility.NOT_NOW, ("backed",), 2)
    assert prediction.message == _NO_MAPPINGS


def test_an_allocation_without_a_timestamp_fails_everywhere_unless_the_pod_has_reserved_it() -> None:
    old = claim("c", allocated=["a/a0"])
    del old["status"]["allocation"]["allocationTimestamp"]
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, old])
    prediction = _predict(cluster, _pod("c"))
    assert prediction.feasibility is Feasibility.NOT_NOW
    assert prediction.message.endswith("field cannot be modified once set")
    old["status"]["reservedFor"] = [{"resource": "pods", "name": "new", "uid": _pod("c")["metadata"]["uid"]}]
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, old])
    assert _predict(cluster, _pod("c")).feasibility is Feasibility.NOW


def test_copies_that_share_a_claim_are_bound_after_the_first_one() -> None:
    cluster = create_full_cluster(_NODES, [], [device_class(), *_SLICES, claim("c")])
    prediction = _predict(cluster, _pod("c"), 3)
    assert (prediction.feasibility, prediction.placed_count) == (Feasibility.NOW, 3)
