"""How much work a pod asks for: every word that is gone through is counted, and nothing is gone through to count."""

from typing import Any

import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, pod, pod_of
from webhook.accounting.scheduling.complexity import count_scanned_groups, estimate_anti_affinity, estimate_complexity
from webhook.accounting.scheduling.incoming_pod import IncomingPod

Json = dict[str, Any]

_TERM: Json = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
    "namespaceSelector": {"matchLabels": {"team": "x"}},
    "matchLabelKeys": ["d"],
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _nodes(*requirements: Json) -> Json:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, 0),
        ({"asks": {"cpu": "1", "memory": "1"}}, 2),
        ({"labels": {"a": "b"}}, 1),
        ({"nodeSelector": {"a": "b", "c": "d"}, "tolerations": [{"operator": "Exists"}]}, 3),
        ({"affinity": _nodes({"key": "a", "operator": "In", "values": ["x"] * 32})}, 4),
        ({"affinity": _nodes({"key": "a", "operator": "Gt", "values": ["1"]})}, 41),
        ({"affinity": {"podAffinity": {_REQUIRED: [_TERM]}}}, 54),
        ({"affinity": {"podAntiAffinity": {_REQUIRED: [_TERM, _TERM]}}}, 108),
        ({"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["c"]}]}, 52),
        ({"ports": [{"hostPort": 80}, {"containerPort": 81}]}, 20),
        ({"volumes": [{"name": "v"}]}, 1),
    ],
)
def test_every_word_counts(spec: Json, words: int) -> None:
    plain, told = estimate_complexity(pod_of(pod()), 9), estimate_complexity(pod_of(pod(**spec)), 1000)
    assert plain is not None
    assert told == plain + words
    assert estimate_complexity(pod_of(pod(**spec)), told) == told
    assert estimate_complexity(pod_of(pod(**spec)), told - 1) is None


def test_a_pod_on_a_node_goes_on_to_keep_others_away() -> None:
    affinity = {"podAffinity": {_REQUIRED: [_TERM]}, "podAntiAffinity": {_REQUIRED: [_TERM, _TERM]}}
    assert estimate_anti_affinity(pod_of(pod(affinity=affinity))) == 108
    assert estimate_anti_affinity(pod_of(pod())) == 0


def test_what_is_no_selector_is_counted_all_the_same() -> None:
    nonsense = {"labelSelector": {"matchExpressions": [{"key": "\n", "operator": "?"}] * 1000}}
    assert estimate_complexity(pod_of(pod(affinity={"podAntiAffinity": {_REQUIRED: [nonsense]}})), 1000) is None


@pytest.mark.parametrize(
    ("selector", "namespaces", "shapes"),
    [
        ({"matchLabels": {"app": "a0"}}, None, 1),
        ({"matchLabels": {"app": "none"}}, None, 0),
        ({"matchLabels": {"app": "a0", "tier": "x"}}, None, 1),
        ({"matchLabels": {"tier": "x"}}, None, 5),
        ({"matchLabels": {"tier": "x"}}, ["other"], 0),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a0", "a1"]}]}, None, 2),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a0"]}]}, None, 5),
        ({}, ["default"], 5),
    ],
)
def test_a_term_walks_over_the_fewest_that_it_may_be_about(
    selector: Json, namespaces: list[str] | None, shapes: int
) -> None:
    there = [pod(f"p{number}", on="n", labels={"app": f"a{number}", "tier": "x"}) for number in range(5)]
    cluster = cluster_of([node("n")], there)
    term: Json = {"topologyKey": "host", "labelSelector": selector}
    where: Json = {"namespaces": namespaces} if namespaces else {"namespaceSelector": {}}
    term |= where
    near = IncomingPod.from_pod(pod_of(pod(affinity={"podAffinity": {_REQUIRED: [term]}})))
    away = IncomingPod.from_pod(pod_of(pod(affinity={"podAntiAffinity": {_REQUIRED: [term, term]}})))
    assert (count_scanned_groups(near, cluster), count_scanned_groups(away, cluster)) == (shapes, 2 * shapes)


def test_a_constraint_walks_over_those_of_the_pods_own_namespace() -> None:
    cluster = cluster_of([node("n")], [pod("p", on="n"), pod("q", on="n", labels={"app": "a"})])
    cluster.groups.intern(pod_of(pod("r", on="n", labels={"app": "b"})))
    spread: Json = {"topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert count_scanned_groups(IncomingPod.from_pod(pod_of(pod(topologySpreadConstraints=[spread]))), cluster) == 2
