"""Pod topology spread, case by case, with kube-scheduler's messages."""

from typing import Any

import pytest

from tallygate.accounting.cluster.cluster import Cluster, fork
from tallygate.accounting.scheduling.diagnosis import format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt

Json = dict[str, Any]

_SKEW = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_SKEW} (missing required label)"
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


def _describe(new: Json, nodes: list[Json], pods: list[Json]) -> str:
    """Return the names of the feasible nodes, or the fit error."""
    cluster = create_cluster(nodes, pods)
    diagnosis = run_filters(IncomingPod.from_pod(decode_pod(new)), cluster)
    if len(diagnosis.feasible):
        return " ".join(_list_feasible(IncomingPod.from_pod(decode_pod(new)), cluster))
    return format_fit_error(diagnosis).removeprefix(f"0/{len(nodes)} nodes are available: ")


_TWO = [_node("a1", zone="a"), _node("b1", zone="b")]
_ON_A = [_web("w1", "a1")]


@pytest.mark.parametrize(
    ("new", "nodes", "pods", "expected"),
    [
        pytest.param(_new(_constraint()), _TWO, [], "a1 b1", id="the first pod may go anywhere"),
        pytest.param(_new(_constraint()), _TWO, _ON_A, "b1", id="the second pod must go to the other domain"),
        pytest.param(_new(_constraint(maxSkew=2)), _TWO, _ON_A, "a1 b1", id="a larger skew is allowed"),
        pytest.param(
            _new(_constraint(whenUnsatisfiable="ScheduleAnyway")),
            _TWO,
            _ON_A,
            "a1 b1",
            id="a soft constraint only affects scores",
        ),
        pytest.param(
            _new(_constraint(), labels={"app": "db"}),
            _TWO,
            _ON_A,
            "a1 b1",
            id="an incoming pod that the selector does not match adds no skew",
        ),
        pytest.param(_new(_constraint("rack")), _TWO, [], f"2 {_NO_LABEL}.", id="no node has the label"),
        pytest.param(
            _new(_constraint()), [*_TWO, _node("c1")], _ON_A, "b1", id="a node without the label is not in a domain"
        ),
        pytest.param(
            _new(_constraint()),
            [_node("a1", zone="a"), _node("c1")],
            [],
            "a1",
            id="a single domain has no skew",
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
            _new(_constraint()),
            _TWO,
            [_web("w1", "a1", namespace="other")],
            "a1 b1",
            id="a pod of another namespace does not count",
        ),
        pytest.param(
            _new(_constraint()), _TWO, [_web("w1", "missing")], "a1 b1", id="a pod on a missing node does not count"
        ),
        pytest.param(
            _new(_constraint(labelSelector=None)), _TWO, _ON_A, "a1 b1", id="an absent selector matches no pod"
        ),
        pytest.param(_new(_constraint(labelSelector={})), _TWO, _ON_A, "a1 b1", id="an empty selector counts no pod"),
        pytest.param(
            _new(_constraint(minDomains=3)),
            _TWO,
            _ON_A,
            "b1",
            id="too few domains: the minimum is zero, which one domain has",
        ),
        pytest.param(
            _new(_constraint(minDomains=3)),
            _TWO,
            [*_ON_A, _web("w2", "b1")],
            f"2 {_SKEW}.",
            id="too few domains: the minimum is zero, which no domain has",
        ),
        pytest.param(
            _new(_constraint(minDomains=2)),
            _TWO,
            [*_ON_A, _web("w2", "b1")],
            "a1 b1",
            id="as many domains as the minimum",
        ),
        pytest.param(
            _new(_constraint(), nodeSelector={"pool": "x"}),
            [_node("a1", zone="a", pool="x"), _node("b1", zone="b")],
            _ON_A,
            "a1",
            id="nodes that the pod's affinity excludes are not in a domain",
        ),
        pytest.param(
            _new(_constraint(nodeAffinityPolicy="Ignore"), nodeSelector={"pool": "x"}),
            [_node("a1", zone="a", pool="x"), _node("b1", zone="b")],
            _ON_A,
            f"1 node(s) didn't match Pod's node affinity/selector, 1 {_SKEW}.",
            id="nodeAffinityPolicy Ignore counts excluded nodes",
        ),
        pytest.param(
            _new(_constraint()),
            [_node("a1", zone="a"), _node("b1", zone="b", taints=_TAINT)],
            _ON_A,
            f"1 {_SKEW}, 1 node(s) had untolerated taint(s).",
            id="tainted nodes are in a domain",
        ),
        pytest.param(
            _new(_constraint(nodeTaintsPolicy="Honor")),
            [_node("a1", zone="a"), _node("b1", zone="b", taints=_TAINT)],
            _ON_A,
            "a1",
            id="nodeTaintsPolicy Honor excludes tainted nodes",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("a2", zone="a", host="a2"), _node("b1", zone="b", host="b1")],
            [_web("w1", "a1"), _web("w2", "b1")],
            "a2",
            id="all constraints apply",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("b1", zone="b")],
            _ON_A,
            "a1",
            id="only nodes with all labels are in domains",
        ),
        pytest.param(
            _new(_constraint(), _constraint("host")),
            [_node("a1", zone="a", host="a1"), _node("a2", zone="a"), _node("b1", zone="b", host="b1", taints=_TAINT)],
            _ON_A,
            f"1 node(s) had untolerated taint(s), 2 {_SKEW}.",
            id="a node reports the first constraint that it fails",
        ),
    ],
)
def test_topology_spread_selects_nodes(new: Json, nodes: list[Json], pods: list[Json], expected: str) -> None:
    assert _describe(new, nodes, pods) == expected


def test_a_missing_label_is_unresolvable_and_a_skew_is_not() -> None:
    cluster = create_cluster([*_TWO, _node("c1")], _ON_A)
    diagnosis = run_filters(IncomingPod.from_pod(decode_pod(_new(_constraint()))), cluster)
    assert [cluster.nodes.get_name(index) for index in diagnosis.resolvable.tolist()] == ["a1"]


def test_label_keys_select_pods_with_the_incoming_pods_values() -> None:
    revisions = [pod(f"w{each}", on="a1", labels={**_WEB, "rev": each}) for each in ("1", "2")]
    keyed = _constraint(matchLabelKeys=["rev", "none"])
    assert _describe(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, revisions[:1]) == "a1 b1"
    assert _describe(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, revisions) == "b1"
    assert _describe(_new(keyed), _TWO, revisions) == "b1"


def test_label_keys_of_a_stored_pod_use_its_current_labels() -> None:
    """Cover a selector with the old value, written by the API server, to which the scheduler adds the new value."""
    stored = {"matchLabels": _WEB, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]}
    keyed = _constraint(matchLabelKeys=["rev"], labelSelector=stored)
    pods = [pod("w1", on="a1", labels={**_WEB, "rev": "1"})]
    assert _describe(_new(keyed, labels={**_WEB, "rev": "1"}), _TWO, pods) == "b1"
    assert _describe(_new(keyed, labels={**_WEB, "rev": "2"}), _TWO, pods) == "a1 b1"


def test_the_removal_of_a_terminating_pod_lowers_the_count() -> None:
    """Subtract the pod on removal although the first count skips it, as `updateWithPod` does."""
    cluster = create_cluster(_TWO, [*_ON_A, _web("w2", "a1", deletionTimestamp="2026-01-01T00:00:00Z")])
    new = IncomingPod.from_pod(decode_pod(_new(_constraint())))
    stored = cluster.find_pod("uid-w2")
    assert stored is not None
    assert _list_feasible(new, cluster) == ["b1"]
    with fork(cluster) as changes:
        changes.remove(stored)
        assert _list_feasible(new, cluster) == ["a1", "b1"]
    assert _list_feasible(new, cluster) == ["b1"]


def test_an_empty_selector_counts_assumed_pods() -> None:
    """Add an assumed pod although the first count skips every pod, as `updateWithPod` does."""
    waiting = pod("w", labels=_WEB) | {"status": {"nominatedNodeName": "a1"}}
    cluster = create_cluster(_TWO, [*_ON_A, waiting])
    new = IncomingPod.from_pod(decode_pod(_new(_constraint(labelSelector={}))))
    (nominated,) = [each for each in cluster.list_pods() if each.nominated_node]
    with fork(cluster) as changes:
        changes.assume(nominated)
        assert _list_feasible(new, cluster) == ["b1"]


def _list_feasible(new: IncomingPod, cluster: Cluster) -> list[str]:
    return sorted(cluster.nodes.get_name(index) for index in run_filters(new, cluster).feasible.tolist())


def test_an_invalid_selector_ends_the_attempt() -> None:
    broken = _constraint(labelSelector={"matchExpressions": [{"key": "app", "operator": "Is", "values": ["web"]}]})
    assert attempt(decode_pod(_new(broken)), create_cluster(_TWO)).message == (
        'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
        'obtaining pod\'s hard topology spread constraints: "Is" is not a valid label selector operator'
    )
    assert attempt(decode_pod(_new(broken)), create_cluster([])).message == "no nodes available to schedule pods"
