"""Pods spread over domains, case by case, in the scheduler's words."""

from typing import Any

import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import attempt
from webhook.accounting.cluster.cluster import Cluster, fork
from webhook.accounting.scheduling.diagnosis import format_fit_error
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod

Json = dict[str, Any]

_UNEVEN = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_UNEVEN} (missing required label)"
_WEB = {"app": "web"}
_TAINT = [{"key": "spot", "value": "", "effect": "NoSchedule"}]


def _node(name: str, *, taints: list[Json] | None = None, **labels: str) -> Json:
    return node(name) | {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}}


def _constraint(key: str = "zone", **fields: Any) -> Json:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return rule | {"labelSelector": {"matchLabels": _WEB}} | fields


def _web(name: str, on: str, **metadata: Any) -> Json:
    written = pod(name, on=on, labels=_WEB)
    return written | {"metadata": written["metadata"] | metadata}


def _new(*constraints: Json, labels: Json | None = None, **spec: Any) -> Json:
    return pod("new", labels=_WEB if labels is None else labels, topologySpreadConstraints=list(constraints), **spec)


def _said(new: Json, nodes: list[Json], pods: list[Json]) -> str:
    """The sentence; or the names of the nodes that fit."""
    cluster = cluster_of(nodes, pods)
    said = run_filters(IncomingPod.from_pod(pod_of(new)), cluster)
    if len(said.feasible):
        return " ".join(_fitting(IncomingPod.from_pod(pod_of(new)), cluster))
    return format_fit_error(said).removeprefix(f"0/{len(nodes)} nodes are available: ")


_TWO = [_node("a1", zone="a"), _node("b1", zone="b")]
_ON_A = [_web("w1", "a1")]


@pytest.mark.parametrize(
    ("new", "nodes", "pods", "said"),
    [
        pytest.param(_new(_constraint()), _TWO, [], "a1 b1", id="the first may go anywhere"),
        pytest.param(_new(_constraint()), _TWO, _ON_A, "b1", id="the second must go to the other domain"),
        pytest.param(_new(_constraint(maxSkew=2)), _TWO, _ON_A, "a1 b1", id="a larger skew is allowed"),
        pytest.param(
            _new(_constraint(whenUnsatisfiable="ScheduleAnyway")), _TWO, _ON_A, "a1 b1", id="a soft one is about scores"
        ),
        pytest.param(
            _new(_constraint(), labels={"app": "db"}),
            _TWO,
            _ON_A,
            "a1 b1",
            id="a pod that it does not select adds none",
        ),
        pytest.param(_new(_constraint("rack")), _TWO, [], f"2 {_NO_LABEL}.", id="no node has the label"),
        pytest.param(
            _new(_constraint()), [*_TWO, _node("c1")], _ON_A, "b1", id="a node without the label is no domain"
        ),
        pytest.param(
            _new(_constraint()),
            [_node("a1", zone="a"), _node("c1")],
            [],
            "a1",
            id="an only domain is even with itself",
        ),
        pytest.param(_new(_constraint()), [_node("e", zone=""), *_TWO], _ON_A, "b1 e", id="an empty value is a domain"),
        pytest.param(
            _new(_constraint()),
            _TWO,
            [_web("w1", "a1", deletionTimestamp="2026-01-01T00:00:00Z")],
            "a1 b1",
            id="a pod being deleted does not count",
        ),
        pytest.param(
            _new(_constraint()), _TWO, [_web("w1", "a1", namespace="other")], "a1 b1", id="nor does another namespace's"
        ),
        pytest.param(_new(_constraint()), _TWO, [_web("w1", "gone")], "a1 b1", id="nor one whose node is gone"),
        pytest.param(
            _new(_constraint(labelSelector=None)), _TWO, _ON_A, "a1 b1", id="an absent selector selects nobody"
        ),
        pytest.param(_new(_constraint(labelSelector={})), _TWO, _ON_A, "a1 b1", id="an empty one counts nobody"),
        pytest.param(
            _new(_constraint(minDomains=3)), _TWO, _ON_A, "b1", id="too few domains: the fewest is none, and b has it"
        ),
        pytest.param(
            _new(_constraint(minDomains=3)),
            _TWO,
            [*_ON_A, _web("w2", "b1")],
            f"2 {_UNEVEN}.",
            id="too few domains: the fewest is none, and nobody has it",
        ),
        pytest.param(
            _new(_constraint(minDomains=2)), _TWO, [*_ON_A, _web("w2", "b1")], "a1 b1", id="as many domains as wanted"
        ),
        pytest.param(
            _new(_constraint(), nodeSelector={"pool": "x"}),
            [_node("a1", zone="a", pool="x"), _node("b1", zone="b")],
            _ON_A,
            "a1",
            id="domains that the pod does not select are left out",
        ),
        pytest.param(
            _new(_constraint(nodeAffinityPolicy="Ignore"), nodeSelector={"pool": "x"}),
            [_node("a1", zone="a", pool="x"), _node("b1", zone="b")],
            _ON_A,
            f"1 node(s) didn't match Pod's node affinity/selector, 1 {_UNEVEN}.",
            id="unless they are to be counted",
        ),
        pytest.param(
            _new(_constraint()),
            [_node("a1", zone="a"), _node("b1", zone="b", taints=_TAINT)],
            _ON_A,
            f"1 {_UNEVEN}, 1 node(s) had untolerated taint(s).",
            id="taints leave no domain out",
        ),
        pytest.param(
            _new(_constraint(nodeTaintsPolicy="Honor")),
            [_node("a1", zone="a"), _node("b1", zone="b", taints=_TAINT)],
            _ON_A,
            "a1",
            id="unless they are to be honoured",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("a2", zone="a", host="a2"), _node("b1", zone="b", host="b1")],
            [_web("w1", "a1"), _web("w2", "b1")],
            "a2",
            id="all constraints must be kept",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("b1", zone="b")],
            _ON_A,
            "a1",
            id="only nodes with all the labels are domains",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("a2", zone="a"), _node("b1", zone="b", host="b1", taints=_TAINT)],
            _ON_A,
            f"1 node(s) had untolerated taint(s), 2 {_UNEVEN}.",
            id="the first constraint that is not kept is told",
        ),
    ],
)
def test_where_a_pod_may_go(new: Json, nodes: list[Json], pods: list[Json], said: str) -> None:
    assert _said(new, nodes, pods) == said


def test_a_missing_label_is_for_good_and_a_skew_is_not() -> None:
    cluster = cluster_of([*_TWO, _node("c1")], _ON_A)
    said = run_filters(IncomingPod.from_pod(pod_of(_new(_constraint()))), cluster)
    assert [cluster.nodes.get_name(place) for place in said.resolvable.tolist()] == ["a1"]


def test_label_keys_select_those_with_the_pods_own_values() -> None:
    revisions = [pod(f"w{each}", on="a1", labels={**_WEB, "rev": each}) for each in ("1", "2")]
    keyed = _constraint(matchLabelKeys=["rev", "none"])
    assert _said(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, revisions[:1]) == "a1 b1"
    assert _said(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, revisions) == "b1"
    assert _said(_new(keyed), _TWO, revisions) == "b1"


def test_label_keys_of_a_stored_pod_follow_its_labels() -> None:
    """The API server has written the old value into the selector, and the scheduler adds the new one."""
    stored = {"matchLabels": _WEB, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]}
    keyed = _constraint(matchLabelKeys=["rev"], labelSelector=stored)
    pods = [pod("w1", on="a1", labels={**_WEB, "rev": "1"})]
    assert _said(_new(keyed, labels={**_WEB, "rev": "1"}), _TWO, pods) == "b1"
    assert _said(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, pods) == "a1 b1"


def test_a_pod_being_deleted_that_is_thought_away_counts_less_than_nothing() -> None:
    """The first count passes over it, but its leaving is subtracted (updateWithPod)."""
    cluster = cluster_of(_TWO, [*_ON_A, _web("w2", "a1", deletionTimestamp="2026-01-01T00:00:00Z")])
    new = IncomingPod.from_pod(pod_of(_new(_constraint())))
    there = cluster.find_pod("uid-w2")
    assert there is not None
    assert _fitting(new, cluster) == ["b1"]
    with fork(cluster) as suppose:
        suppose.remove(there)
        assert _fitting(new, cluster) == ["a1", "b1"]
    assert _fitting(new, cluster) == ["b1"]


def test_an_empty_selector_counts_those_that_are_thought_to_be_there() -> None:
    """The first count passes over everybody, but who comes is added (updateWithPod)."""
    waiting = pod("w", labels=_WEB) | {"status": {"nominatedNodeName": "a1"}}
    cluster = cluster_of(_TWO, [*_ON_A, waiting])
    new = IncomingPod.from_pod(pod_of(_new(_constraint(labelSelector={}))))
    (promised,) = [each for each in cluster.list_pods() if each.nominated_node]
    with fork(cluster) as suppose:
        suppose.assume(promised)
        assert _fitting(new, cluster) == ["b1"]


def _fitting(new: IncomingPod, cluster: Cluster) -> list[str]:
    return sorted(cluster.nodes.get_name(place) for place in run_filters(new, cluster).feasible.tolist())


def test_a_selector_that_is_none_ends_the_attempt() -> None:
    broken = _constraint(labelSelector={"matchExpressions": [{"key": "app", "operator": "Is", "values": ["web"]}]})
    assert attempt(pod_of(_new(broken)), cluster_of(_TWO)).message == (
        'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
        'obtaining pod\'s hard topology spread constraints: "Is" is not a valid label selector operator'
    )
    assert attempt(pod_of(_new(broken)), cluster_of([])).message == "no nodes available to schedule pods"
