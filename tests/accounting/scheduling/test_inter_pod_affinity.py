"""Pods that want to be near each other, or away from each other, case by case, in the scheduler's words."""

from typing import Any

import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from tests.accounting.scheduling.deciding import attempt, list_unmodelled
from webhook.accounting.cluster.cluster import Cluster, fork
from webhook.accounting.cluster.pod_info import create_pod_info
from webhook.accounting.scheduling.diagnosis import format_fit_error
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod

Json = dict[str, Any]

_FAR = "node(s) didn't match pod affinity rules"
_AVOIDED = "node(s) didn't match pod anti-affinity rules"
_GUARDED = "node(s) didn't satisfy existing pods anti-affinity rules"
_NOT_B = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}


def _node(name: str, **labels: str) -> Json:
    return node(name) | {"metadata": {"name": name, "labels": labels}}


def _term(key: str = "zone", app: str | None = "db", **fields: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}} if app else None} | fields


def _near(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _away(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _pod(app: str, on: str = "", namespace: str = "default", **spec: Any) -> Json:
    written = pod(f"{app}-{namespace}-{on}", on=on, labels={"app": app}, **spec)
    return written | {"metadata": written["metadata"] | {"namespace": namespace}}


def _cluster(nodes: list[Json], pods: list[Json], namespaces: Json | None = None) -> Cluster:
    cluster = cluster_of(nodes, pods)
    cluster.namespaces.update(namespaces or {})
    return cluster


def _said(new: Json, cluster: Cluster) -> str:
    """The sentence; or the names of the nodes that fit."""
    said = run_filters(IncomingPod.from_pod(pod_of(new)), cluster)
    if len(said.feasible):
        return " ".join(sorted(cluster.nodes.get_name(place) for place in said.feasible.tolist()))
    return format_fit_error(said).removeprefix(f"0/{len(cluster.nodes)} nodes are available: ")


_NODES = [_node("a1", zone="a"), _node("a2", zone="a"), _node("b1", zone="b"), _node("c1")]


@pytest.mark.parametrize(
    ("affinity", "pods", "said"),
    [
        pytest.param(_near(_term()), [_pod("db", "a1")], "a1 a2", id="where its like is in the domain"),
        pytest.param(_near(_term()), [], f"4 {_FAR}.", id="nobody is there"),
        pytest.param(_near(_term()), [_pod("db", "c1")], f"4 {_FAR}.", id="one that is in no domain is near nobody"),
        pytest.param(_near(_term()), [_pod("db", "gone")], f"4 {_FAR}.", id="nor is one whose node is gone"),
        pytest.param(_near(_term("rack")), [_pod("db", "a1")], f"4 {_FAR}.", id="no node has the label"),
        pytest.param(
            _near(_term(app="web")), [], "a1 a2 b1", id="the first of those who want each other may go anywhere"
        ),
        pytest.param(_near(_term(app="web")), [_pod("web", "c1")], "a1 a2 b1", id="though one is in no domain"),
        pytest.param(_near(_term(app="web")), [_pod("web", "b1")], "b1", id="the second goes where the first is"),
        pytest.param(
            _near(_term(app="web"), _term()), [], f"4 {_FAR}.", id="the first must be all that it wants itself"
        ),
        pytest.param(
            _near(_term(), _term("host")),
            [_pod("db", "a1")],
            f"4 {_FAR}.",
            id="all labels must be there",
        ),
        pytest.param(
            _near(_term(), _term(app="web")),
            [_pod("db", "a1"), _pod("web", "a1")],
            f"4 {_FAR}.",
            id="one pod must be all that is wanted",
        ),
        pytest.param(_near(_term(app=None)), [_pod("db", "a1")], f"4 {_FAR}.", id="an absent selector wants nobody"),
        pytest.param(
            _near(_term(labelSelector={})), [_pod("db", "a1"), _pod("x", "b1")], "a1 a2 b1", id="an empty one anybody"
        ),
        pytest.param(_near(_term()), [_pod("db", "a1", "other")], f"4 {_FAR}.", id="its own namespace is meant"),
        pytest.param(
            _near(_term(namespaces=["other"])),
            [_pod("db", "a1", "other"), _pod("db", "b1")],
            "a1 a2",
            id="or one named",
        ),
        pytest.param(
            _near(_term(namespaces=[], namespaceSelector={})),
            [_pod("db", "a1", "unknown")],
            "a1 a2",
            id="or every one, known or not",
        ),
        pytest.param(
            _near(_term(namespaceSelector={"matchLabels": {"team": "a"}})),
            [_pod("db", "a1"), _pod("db", "b1", "other")],
            "b1",
            id="or those with labels",
        ),
        pytest.param(
            _near(_term(namespaces=["default"], namespaceSelector={"matchLabels": {"team": "a"}})),
            [_pod("db", "a1"), _pod("db", "b1", "other")],
            "a1 a2 b1",
            id="or named or with labels",
        ),
        pytest.param(
            _near(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", "bees"), _pod("db", "b1", "unknown")],
            "a1 a2 b1",
            id="a selector that no labels satisfy too is about every namespace, by the scheduler's mistake",
        ),
        pytest.param(_away(_term()), [_pod("db", "a1")], "b1 c1", id="away from the domain"),
        pytest.param(_away(_term()), [_pod("db", "c1")], "a1 a2 b1 c1", id="one in no domain keeps nobody away"),
        pytest.param(_away(_term("zone"), _term("none")), [_pod("db", "a1")], "b1 c1", id="a label that is nowhere"),
        pytest.param(
            _away(_term(), _term(app="x")), [_pod("db", "a1"), _pod("x", "b1")], "c1", id="away from all of them"
        ),
        pytest.param({}, [_pod("db", "a1", affinity=_away(_term(app="web")))], "b1 c1", id="others keep it away"),
        pytest.param(
            {}, [_pod("db", "gone", affinity=_away(_term(app="web")))], "a1 a2 b1 c1", id="not from gone nodes"
        ),
        pytest.param({}, [_pod("db", "c1", affinity=_away(_term(app="web")))], "a1 a2 b1 c1", id="nor from no domain"),
        pytest.param(
            {}, [_pod("db", "a1", "other", affinity=_away(_term(app="web")))], "a1 a2 b1 c1", id="nor from elsewhere"
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "other", affinity=_away(_term(app="web", namespaceSelector=_NOT_B)))],
            "b1 c1",
            id="an unknown namespace has no labels",
        ),
        pytest.param(
            {},
            [
                _pod(
                    "db",
                    "a1",
                    affinity=_away(_term(app="web"), _term("none", labelSelector={"matchLabels": {"-": ""}})),
                )
            ],
            "a1 a2 b1 c1",
            id="all that a pod on a node keeps away is dropped if some of it cannot be read",
        ),
        pytest.param(
            _near(_term()) | _away(_term("host", "x")),
            [_pod("db", "a1"), _pod("web", "b1", affinity=_away(_term(app="web")))],
            "a1 a2",
            id="near some, and kept away by others",
        ),
    ],
)
def test_where_a_pod_may_go(affinity: Json, pods: list[Json], said: str) -> None:
    cluster = _cluster(_NODES, pods, {"other": {"team": "a"}, "bees": {"team": "b"}, "default": {}})
    assert _said(_pod("web", affinity=affinity), cluster) == said


def test_each_node_says_the_first_reason_only() -> None:
    nodes = [_node("a1", zone="a", host="a1"), _node("a2", zone="a", host="a2"), _node("a3", zone="a", host="a3")]
    away = _away(_term("host", "web"))
    pods = [_pod("db", "a1", affinity=away), _pod("x", "a1"), _pod("x", "a2"), _pod("y", "a3", affinity=away)]
    cluster = _cluster([*nodes, _node("b1", zone="b")], pods)
    new = _pod("web", affinity=_near(_term()) | _away(_term("host", "x")))
    assert _said(new, cluster) == f"1 {_FAR}, 1 {_GUARDED}, 2 {_AVOIDED}."
    said = run_filters(IncomingPod.from_pod(pod_of(new)), cluster)
    assert sorted(cluster.nodes.get_name(place) for place in said.resolvable.tolist()) == ["a1", "a2", "a3"]


def test_label_keys_of_a_pod_that_is_not_stored_are_merged_into_its_terms() -> None:
    pods = [pod(f"db-{rev}", on=on, labels={"app": "db", "rev": rev}) for rev, on in (("1", "a1"), ("2", "b1"))]
    cluster = _cluster(_NODES, pods)
    for term, uid, said in (
        (_term(matchLabelKeys=["rev", "none"]), "", "b1"),
        (_term(mismatchLabelKeys=["rev"]), "", "a1 a2"),
        (_term(matchLabelKeys=["rev"]), "stored", "a1 a2 b1"),
    ):
        new = pod("web", labels={"app": "web", "rev": "2"}, affinity=_near(term))
        new["metadata"]["uid"] = uid
        assert _said(new, cluster) == said


def test_label_keys_of_a_pod_that_is_thought_to_be_there_are_merged_too() -> None:
    cluster = _cluster(_NODES, [])
    there = pod(
        "db", on="a1", labels={"app": "db", "rev": "1"}, affinity=_away(_term(app="web", matchLabelKeys=["rev"]))
    )
    for uid, said in (("", "a1 a2 b1 c1"), ("stored", "b1 c1")):
        there["metadata"]["uid"] = uid
        found = create_pod_info(pod_of(there), cluster.groups)
        assert found is not None
        cluster.put_pod(found)
        assert _said(pod("web", labels={"app": "web", "rev": "2"}), cluster) == said
        cluster.remove_pod(found.uid)


def test_keys_are_not_merged_into_an_absent_selector() -> None:
    new = pod("web", labels={"app": "web"}, affinity=_away(_term(app=None, matchLabelKeys=["app"])))
    new["metadata"]["uid"] = ""
    assert _said(new, _cluster(_NODES, [_pod("web", "a1")])) == "a1 a2 b1 c1"


def test_a_selector_that_is_none_keeps_the_pod_off_every_node() -> None:
    broken = _term(labelSelector={"matchExpressions": [{"key": "app", "operator": "In"}]})
    empty = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    near, away = f"requiredAffinityTerms: {empty}", f"requiredAntiAffinityTerms: {empty}"
    for affinity, said in (
        (_near(broken), near),
        (_away(broken), away),
        (_near(broken) | _away(broken), f"[{near}, {away}]"),
    ):
        told = attempt(pod_of(_pod("web", affinity=affinity)), _cluster(_NODES, []))
        assert told.message == f"0/4 nodes are available: parsing pod: {said}. not found"


def test_who_is_only_thought_to_be_there_is_not_heard_by_a_pod_without_terms() -> None:
    """The plugin is skipped when nobody keeps the pod away before others are thought to be there."""
    waiting = _pod("db", affinity=_away(_term(app="web"))) | {"status": {"nominatedNodeName": "a1"}}
    for others, affinity, said in (
        ([], {}, "a1 a2 b1 c1"),
        ([_pod("x", "b1", affinity=_away(_term(app="web")))], {}, "c1"),
        ([], _away(_term(app="nobody")), "b1 c1"),
    ):
        cluster = _cluster(_NODES, [waiting, *others])
        (promised,) = [each for each in cluster.list_pods() if each.nominated_node]
        with fork(cluster) as suppose:
            suppose.assume(promised)
            assert _said(_pod("web", affinity=affinity), cluster) == said


@pytest.mark.parametrize(
    ("affinity", "pods", "namespaces", "left_open"),
    [
        pytest.param(_near(_term()), [_pod("db", "a1", "red")], {}, "", id="no labels are asked for"),
        pytest.param(
            _near(_term(namespaceSelector={})), [_pod("db", "a1", "red")], {}, "", id="nor for every namespace"
        ),
        pytest.param(
            _near(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", each) for each in ("red", "blue", "grey", "pink")],
            {"grey": {}},
            "blue, default, pink and 1 more",
            id="of those who have pods, and of its own",
        ),
        pytest.param(
            _away(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", "red")],
            {"red": {}, "default": {}},
            "",
            id="all are known",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "red", affinity=_away(_term(app="web", namespaceSelector=_NOT_B)))],
            {"red": {}},
            "default",
            id="by a pod that may keep it away",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "red", affinity=_away(_term(app="x", namespaceSelector=_NOT_B)))],
            {"red": {}},
            "",
            id="by a pod that does not mean it anyway",
        ),
    ],
)
def test_labels_of_namespaces_that_are_not_known_are_named(
    affinity: Json, pods: list[Json], namespaces: Json, left_open: str
) -> None:
    cluster = _cluster(_NODES, pods, namespaces)
    said = list_unmodelled(pod_of(_pod("web", affinity=affinity)), cluster)
    expected = [f"affinity: the labels of namespaces are not known: {left_open}"] if left_open else []
    assert list(said) == expected
