"""The complexity estimate of a pod: it counts every element that the filters read, and stops at the limit."""

from typing import Any

import pytest

from tallygate.accounting.scheduling.complexity import (
    count_scanned_groups,
    estimate_anti_affinity,
    estimate_complexity,
)
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod

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
    ("spec", "elements"),
    [
        ({}, 0),
        ({"requests": {"cpu": "1", "memory": "1"}}, 2),
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
def test_every_element_of_a_spec_adds_to_the_complexity(spec: Json, elements: int) -> None:
    plain, complexity = estimate_complexity(decode_pod(pod()), 9), estimate_complexity(decode_pod(pod(**spec)), 1000)
    assert plain is not None
    assert complexity == plain + elements
    assert estimate_complexity(decode_pod(pod(**spec)), complexity) == complexity
    assert estimate_complexity(decode_pod(pod(**spec)), complexity - 1) is None


def test_required_anti_affinity_of_a_stored_pod_adds_to_the_complexity() -> None:
    affinity = {"podAffinity": {_REQUIRED: [_TERM]}, "podAntiAffinity": {_REQUIRED: [_TERM, _TERM]}}
    assert estimate_anti_affinity(decode_pod(pod(affinity=affinity))) == 108
    assert estimate_anti_affinity(decode_pod(pod())) == 0


def test_an_invalid_selector_adds_to_the_complexity() -> None:
    invalid = {"labelSelector": {"matchExpressions": [{"key": "\n", "operator": "?"}] * 1000}}
    assert estimate_complexity(decode_pod(pod(affinity={"podAntiAffinity": {_REQUIRED: [invalid]}})), 1000) is None


@pytest.mark.parametrize(
    ("selector", "namespaces", "groups"),
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
def test_a_term_scans_the_smallest_index_of_groups(selector: Json, namespaces: list[str] | None, groups: int) -> None:
    pods = [pod(f"p{number}", on="n", labels={"app": f"a{number}", "tier": "x"}) for number in range(5)]
    cluster = create_cluster([node("n")], pods)
    term: Json = {"topologyKey": "host", "labelSelector": selector}
    scope: Json = {"namespaces": namespaces} if namespaces else {"namespaceSelector": {}}
    term |= scope
    near = IncomingPod.from_pod(decode_pod(pod(affinity={"podAffinity": {_REQUIRED: [term]}})))
    away = IncomingPod.from_pod(decode_pod(pod(affinity={"podAntiAffinity": {_REQUIRED: [term, term]}})))
    assert (count_scanned_groups(near, cluster), count_scanned_groups(away, cluster)) == (groups, 2 * groups)


def test_a_constraint_scans_the_groups_of_the_pods_own_namespace() -> None:
    cluster = create_cluster([node("n")], [pod("p", on="n"), pod("q", on="n", labels={"app": "a"})])
    cluster.groups.intern(decode_pod(pod("r", on="n", labels={"app": "b"})))
    spread: Json = {"topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert count_scanned_groups(IncomingPod.from_pod(decode_pod(pod(topologySpreadConstraints=[spread]))), cluster) == 2
