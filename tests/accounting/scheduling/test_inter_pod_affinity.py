"""Affinity and anti-affinity between pods, case by case, with kube-scheduler's messages."""

from typing import Any

import pytest

from tallygate.accounting.cluster.cluster import Cluster, fork
from tallygate.accounting.cluster.pod_info import create_pod_info
from tallygate.accounting.scheduling.diagnosis import format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, list_unmodelled

Json = dict[str, Any]

_NO_AFFINITY = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
_NOT_B = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}


def _node(name: str, **labels: str) -> Json:
    return node(name) | {"metadata": {"name": name, "labels": labels}}


def _term(key: str = "zone", app: str | None = "db", **fields: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}} if app else None} | fields


def _affinity(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _anti_affinity(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _pod(app: str, on: str = "", namespace: str = "default", **spec: Any) -> Json:
    written = pod(f"{app}-{namespace}-{on}", on=on, labels={"app": app}, **spec)
    return written | {"metadata": written["metadata"] | {"namespace": namespace}}


def _cluster(nodes: list[Json], pods: list[Json], namespaces: Json | None = None) -> Cluster:
    cluster = create_cluster(nodes, pods)
    cluster.namespaces.update(namespaces or {})
    return cluster


def _describe(new: Json, cluster: Cluster) -> str:
    """Return the names of the feasible nodes, or the fit error."""
    diagnosis = run_filters(IncomingPod.from_pod(decode_pod(new)), cluster)
    if len(diagnosis.feasible):
        return " ".join(sorted(cluster.nodes.get_name(index) for index in diagnosis.feasible.tolist()))
    return format_fit_error(diagnosis).removeprefix(f"0/{len(cluster.nodes)} nodes are available: ")


_NODES = [_node("a1", zone="a"), _node("a2", zone="a"), _node("b1", zone="b"), _node("c1")]


@pytest.mark.parametrize(
    ("affinity", "pods", "expected"),
    [
        pytest.param(_affinity(_term()), [_pod("db", "a1")], "a1 a2", id="a matching pod is in the domain"),
        pytest.param(_affinity(_term()), [], f"4 {_NO_AFFINITY}.", id="no matching pod"),
        pytest.param(
            _affinity(_term()), [_pod("db", "c1")], f"4 {_NO_AFFINITY}.", id="a pod outside every domain does not count"
        ),
        pytest.param(
            _affinity(_term()),
            [_pod("db", "missing")],
            f"4 {_NO_AFFINITY}.",
            id="a pod on a missing node does not count",
        ),
        pytest.param(_affinity(_term("rack")), [_pod("db", "a1")], f"4 {_NO_AFFINITY}.", id="no node has the label"),
        pytest.param(
            _affinity(_term(app="web")), [], "a1 a2 b1", id="the first pod of a self-affine group may go anywhere"
        ),
        pytest.param(
            _affinity(_term(app="web")),
            [_pod("web", "c1")],
            "a1 a2 b1",
            id="also if a pod of the group is outside every domain",
        ),
        pytest.param(
            _affinity(_term(app="web")),
            [_pod("web", "b1")],
            "b1",
            id="the second pod of a group goes to the domain of the first",
        ),
        pytest.param(
            _affinity(_term(app="web"), _term()),
            [],
            f"4 {_NO_AFFINITY}.",
            id="the first pod must match all of its own terms",
        ),
        pytest.param(
            _affinity(_term(), _term("host")),
            [_pod("db", "a1")],
            f"4 {_NO_AFFINITY}.",
            id="a node must have all topology labels",
        ),
        pytest.param(
            _affinity(_term(), _term(app="web")),
            [_pod("db", "a1"), _pod("web", "a1")],
            f"4 {_NO_AFFINITY}.",
            id="one pod must match all terms",
        ),
        pytest.param(
            _affinity(_term(app=None)), [_pod("db", "a1")], f"4 {_NO_AFFINITY}.", id="an absent selector matches no pod"
        ),
        pytest.param(
            _affinity(_term(labelSelector={})),
            [_pod("db", "a1"), _pod("x", "b1")],
            "a1 a2 b1",
            id="an empty selector matches every pod",
        ),
        pytest.param(
            _affinity(_term()),
            [_pod("db", "a1", "other")],
            f"4 {_NO_AFFINITY}.",
            id="a term applies to the pod's own namespace",
        ),
        pytest.param(
            _affinity(_term(namespaces=["other"])),
            [_pod("db", "a1", "other"), _pod("db", "b1")],
            "a1 a2",
            id="a term may name namespaces",
        ),
        pytest.param(
            _affinity(_term(namespaces=[], namespaceSelector={})),
            [_pod("db", "a1", "unknown")],
            "a1 a2",
            id="an empty namespace selector matches every namespace, known or not",
        ),
        pytest.param(
            _affinity(_term(namespaceSelector={"matchLabels": {"team": "a"}})),
            [_pod("db", "a1"), _pod("db", "b1", "other")],
            "b1",
            id="a term may select namespaces by labels",
        ),
        pytest.param(
            _affinity(_term(namespaces=["default"], namespaceSelector={"matchLabels": {"team": "a"}})),
            [_pod("db", "a1"), _pod("db", "b1", "other")],
            "a1 a2 b1",
            id="a term may both name and select namespaces",
        ),
        pytest.param(
            _affinity(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", "other"), _pod("db", "b1", "bees"), _pod("db", "c1", "unknown")],
            "a1 a2",
            id="a negative selector matches the namespaces that are known",
        ),
        pytest.param(_anti_affinity(_term()), [_pod("db", "a1")], "b1 c1", id="anti-affinity excludes the domain"),
        pytest.param(
            _anti_affinity(_term()), [_pod("db", "c1")], "a1 a2 b1 c1", id="a pod outside every domain excludes no node"
        ),
        pytest.param(
            _anti_affinity(_term("zone"), _term("none")),
            [_pod("db", "a1")],
            "b1 c1",
            id="a topology label that no node has excludes no node",
        ),
        pytest.param(
            _anti_affinity(_term(), _term(app="x")),
            [_pod("db", "a1"), _pod("x", "b1")],
            "c1",
            id="all anti-affinity terms exclude their domains",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", affinity=_anti_affinity(_term(app="web")))],
            "b1 c1",
            id="an existing pod's anti-affinity excludes its domain",
        ),
        pytest.param(
            {},
            [_pod("db", "missing", affinity=_anti_affinity(_term(app="web")))],
            "a1 a2 b1 c1",
            id="a pod on a missing node excludes no node",
        ),
        pytest.param(
            {},
            [_pod("db", "c1", affinity=_anti_affinity(_term(app="web")))],
            "a1 a2 b1 c1",
            id="an existing pod outside every domain excludes no node",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "other", affinity=_anti_affinity(_term(app="web")))],
            "a1 a2 b1 c1",
            id="an existing pod of another namespace excludes no node",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "other", affinity=_anti_affinity(_term(app="web", namespaceSelector=_NOT_B)))],
            "b1 c1",
            id="an unknown namespace has no labels",
        ),
        pytest.param(
            {},
            [
                _pod(
                    "db",
                    "a1",
                    affinity=_anti_affinity(_term(app="web"), _term("none", labelSelector={"matchLabels": {"-": ""}})),
                )
            ],
            "a1 a2 b1 c1",
            id="an existing pod's terms are dropped if one of them is invalid",
        ),
        pytest.param(
            _affinity(_term()) | _anti_affinity(_term("host", "x")),
            [_pod("db", "a1"), _pod("web", "b1", affinity=_anti_affinity(_term(app="web")))],
            "a1 a2",
            id="affinity to one pod, and another pod's anti-affinity",
        ),
    ],
)
def test_pod_affinity_selects_nodes(affinity: Json, pods: list[Json], expected: str) -> None:
    cluster = _cluster(_NODES, pods, {"other": {"team": "a"}, "bees": {"team": "b"}, "default": {}})
    assert _describe(_pod("web", affinity=affinity), cluster) == expected


def test_each_node_reports_only_its_first_reason() -> None:
    nodes = [_node("a1", zone="a", host="a1"), _node("a2", zone="a", host="a2"), _node("a3", zone="a", host="a3")]
    terms = _anti_affinity(_term("host", "web"))
    pods = [_pod("db", "a1", affinity=terms), _pod("x", "a1"), _pod("x", "a2"), _pod("y", "a3", affinity=terms)]
    cluster = _cluster([*nodes, _node("b1", zone="b")], pods)
    new = _pod("web", affinity=_affinity(_term()) | _anti_affinity(_term("host", "x")))
    assert _describe(new, cluster) == f"1 {_NO_AFFINITY}, 1 {_EXISTING_ANTI_AFFINITY}, 2 {_ANTI_AFFINITY}."
    diagnosis = run_filters(IncomingPod.from_pod(decode_pod(new)), cluster)
    assert sorted(cluster.nodes.get_name(index) for index in diagnosis.resolvable.tolist()) == ["a1", "a2", "a3"]


def test_label_keys_of_a_pod_that_is_not_stored_are_merged_into_its_terms() -> None:
    pods = [pod(f"db-{rev}", on=on, labels={"app": "db", "rev": rev}) for rev, on in (("1", "a1"), ("2", "b1"))]
    cluster = _cluster(_NODES, pods)
    for term, uid, expected in (
        (_term(matchLabelKeys=["rev", "none"]), "", "b1"),
        (_term(mismatchLabelKeys=["rev"]), "", "a1 a2"),
        (_term(matchLabelKeys=["rev"]), "stored", "a1 a2 b1"),
    ):
        new = pod("web", labels={"app": "web", "rev": "2"}, affinity=_affinity(term))
        new["metadata"]["uid"] = uid
        assert _describe(new, cluster) == expected


def test_label_keys_of_an_assumed_pod_are_merged_into_its_terms() -> None:
    cluster = _cluster(_NODES, [])
    assumed = pod(
        "db",
        on="a1",
        labels={"app": "db", "rev": "1"},
        affinity=_anti_affinity(_term(app="web", matchLabelKeys=["rev"])),
    )
    for uid, expected in (("", "a1 a2 b1 c1"), ("stored", "b1 c1")):
        assumed["metadata"]["uid"] = uid
        found = create_pod_info(decode_pod(assumed), cluster.groups)
        assert found is not None
        cluster.put_pod(found)
        assert _describe(pod("web", labels={"app": "web", "rev": "2"}), cluster) == expected
        cluster.remove_pod(found.uid)


def test_keys_are_not_merged_into_an_absent_selector() -> None:
    new = pod("web", labels={"app": "web"}, affinity=_anti_affinity(_term(app=None, matchLabelKeys=["app"])))
    new["metadata"]["uid"] = ""
    assert _describe(new, _cluster(_NODES, [_pod("web", "a1")])) == "a1 a2 b1 c1"


def test_an_invalid_selector_excludes_every_node() -> None:
    broken = _term(labelSelector={"matchExpressions": [{"key": "app", "operator": "In"}]})
    empty = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    affinity_error, anti_affinity_error = f"requiredAffinityTerms: {empty}", f"requiredAntiAffinityTerms: {empty}"
    for affinity, expected in (
        (_affinity(broken), affinity_error),
        (_anti_affinity(broken), anti_affinity_error),
        (_affinity(broken) | _anti_affinity(broken), f"[{affinity_error}, {anti_affinity_error}]"),
    ):
        result = attempt(decode_pod(_pod("web", affinity=affinity)), _cluster(_NODES, []))
        assert result.message == f"0/4 nodes are available: parsing pod: {expected}. not found"


def test_an_assumed_pods_anti_affinity_does_not_apply_to_a_pod_without_terms() -> None:
    """Skip the plugin, as kube-scheduler does, when no stored pod excludes the incoming pod."""
    waiting = _pod("db", affinity=_anti_affinity(_term(app="web"))) | {"status": {"nominatedNodeName": "a1"}}
    for others, affinity, expected in (
        ([], {}, "a1 a2 b1 c1"),
        ([_pod("x", "b1", affinity=_anti_affinity(_term(app="web")))], {}, "c1"),
        ([], _anti_affinity(_term(app="absent")), "b1 c1"),
    ):
        cluster = _cluster(_NODES, [waiting, *others])
        (nominated,) = [each for each in cluster.list_pods() if each.nominated_node]
        with fork(cluster) as changes:
            changes.assume(nominated)
            assert _describe(_pod("web", affinity=affinity), cluster) == expected


@pytest.mark.parametrize(
    ("affinity", "pods", "namespaces", "unknown"),
    [
        pytest.param(_affinity(_term()), [_pod("db", "a1", "red")], {}, "", id="a term without namespace selector"),
        pytest.param(
            _affinity(_term(namespaceSelector={})), [_pod("db", "a1", "red")], {}, "", id="an empty namespace selector"
        ),
        pytest.param(
            _affinity(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", each) for each in ("red", "blue", "grey", "pink")],
            {"grey": {}},
            "blue, default, pink and 1 more",
            id="namespaces with pods, and the pod's own",
        ),
        pytest.param(
            _anti_affinity(_term(namespaceSelector=_NOT_B)),
            [_pod("db", "a1", "red")],
            {"red": {}, "default": {}},
            "",
            id="all namespaces are known",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "red", affinity=_anti_affinity(_term(app="web", namespaceSelector=_NOT_B)))],
            {"red": {}},
            "default",
            id="the terms of an existing pod that may exclude the pod",
        ),
        pytest.param(
            {},
            [_pod("db", "a1", "red", affinity=_anti_affinity(_term(app="x", namespaceSelector=_NOT_B)))],
            {"red": {}},
            "",
            id="the terms of an existing pod that do not match the pod",
        ),
    ],
)
def test_a_prediction_names_namespaces_with_unknown_labels(
    affinity: Json, pods: list[Json], namespaces: Json, unknown: str
) -> None:
    cluster = _cluster(_NODES, pods, namespaces)
    unmodelled = list_unmodelled(decode_pod(_pod("web", affinity=affinity)), cluster)
    expected = [f"affinity: the labels of namespaces are not known: {unknown}"] if unknown else []
    assert list(unmodelled) == expected
