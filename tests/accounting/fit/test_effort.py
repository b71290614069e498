"""How much work a pod asks for: every word that is gone through is counted, and nothing is gone through to count."""

from typing import Any

import pytest

from tests.accounting.fit.clusters import pod, pod_of
from webhook.accounting.fit.effort import effort, words_of_others

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
        ({"affinity": _nodes({"key": "a", "operator": "Gt", "values": ["1"]})}, 21),
        ({"affinity": {"podAffinity": {_REQUIRED: [_TERM]}}}, 54),
        ({"affinity": {"podAntiAffinity": {_REQUIRED: [_TERM, _TERM]}}}, 108),
        ({"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["c"]}]}, 52),
        ({"ports": [{"hostPort": 80}, {"containerPort": 81}]}, 20),
        ({"volumes": [{"name": "v"}]}, 1),
    ],
)
def test_every_word_counts(spec: Json, words: int) -> None:
    plain = effort(pod_of(pod()))
    assert effort(pod_of(pod(**spec))) == plain + words


def test_a_pod_on_a_node_goes_on_to_keep_others_away() -> None:
    affinity = {"podAffinity": {_REQUIRED: [_TERM]}, "podAntiAffinity": {_REQUIRED: [_TERM, _TERM]}}
    assert words_of_others(pod_of(pod(affinity=affinity))) == 108
    assert words_of_others(pod_of(pod())) == 0


def test_what_is_no_selector_is_counted_all_the_same() -> None:
    nonsense = {"labelSelector": {"matchExpressions": [{"key": "\n", "operator": "?"}] * 1000}}
    assert effort(pod_of(pod(affinity={"podAntiAffinity": {_REQUIRED: [nonsense]}}))) > 1000
