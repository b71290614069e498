"""The largest pods that an API server accepts, full of terms about nodes and other pods, or of resources.

They cost little more, and at most in proportion to their size.

A request has at most 3 MiB (MaxRequestBodyBytes in apiserver config.go, v1.36), and what is stored at most 1.5 MiB.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallygate.review.cluster_snapshot import FixedSnapshot, SnapshotProvider
from tests.calls import count_calls
from tests.gate.gate_fixture import GateFixture, pod, response
from tests.gate.test_schedulability import NOT_NOW, RULE, cluster

_MIB = 1024 * 1024
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Json = dict[str, Any]


def _term(number: int) -> Json:
    excepted = {"key": "app", "operator": "NotIn", "values": [f"app-{number}"]}
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": [excepted]}, "namespaceSelector": {}}


def _affinity(size: int) -> Json:
    return {"affinity": {"podAffinity": {_REQUIRED: _fill(_term, size)}}}


def _anti_affinity(size: int) -> Json:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: _fill(_term, size)}}}


def _one_long_term(size: int) -> Json:
    values = _fill(lambda number: f"value-{number}", size)
    chosen = {"key": "app", "operator": "In", "values": values}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [chosen]}, "namespaces": ["a"]}
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}}


def _spread(size: int) -> Json:
    def constraint(number: int) -> Json:
        return {
            "maxSkew": 1,
            "topologyKey": f"key-{number}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
        }

    return {"topologySpreadConstraints": _fill(constraint, size)}


def _nodes(size: int) -> Json:
    def term(number: int) -> Json:
        return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": [str(number)]}]}

    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": _fill(term, size)}}}}


def _tolerations(size: int) -> Json:
    return {"tolerations": _fill(lambda number: {"key": f"key-{number}", "operator": "Exists"}, size)}


def _node_selector(size: int) -> Json:
    return {"nodeSelector": dict.fromkeys(_fill(lambda number: f"example.com/key-{number}", size), "value")}


def _fill(make: Callable[[int], Any], size: int) -> list[Any]:
    """Return items until they have the given size in bytes."""
    each = len(json.dumps(make(10_000)))
    return [make(number) for number in range(size // each + 1)]


def _count_calls(fixture: GateFixture, body: Json) -> int:
    """Return the number of calls of a review."""
    body["metadata"]["name"] = "again"
    return count_calls(lambda: fixture.admit(body))


@pytest.mark.parametrize("size", [_MIB * 3 // 2, _MIB * 3], ids=["as large as is stored", "as large as is sent"])
@pytest.mark.parametrize(
    "spec", [_affinity, _anti_affinity, _one_long_term, _spread, _nodes, _tolerations, _node_selector]
)
def test_a_pod_that_is_too_complex_is_not_evaluated(spec: Callable[[int], Json], size: int) -> None:
    body = pod("u", 1, **spec(size))
    assert len(json.dumps(body)) >= size
    rule = RULE % ("deny", NOT_NOW)
    evaluating, without_cluster = GateFixture(rule, snapshots=FixedSnapshot(cluster(4))), GateFixture(rule)
    result = response(evaluating.admit(body))
    assert result["allowed"]
    assert "are too complex" in result["warnings"][0]
    assert _count_calls(evaluating, body) < 2 * _count_calls(without_cluster, body)


def test_a_pod_of_usual_complexity_is_evaluated() -> None:
    some: Json = _affinity(1200) | {"tolerations": _tolerations(600)["tolerations"]}
    snapshots: SnapshotProvider = FixedSnapshot(cluster(4))
    result = response(GateFixture(RULE % ("warn", NOT_NOW), snapshots=snapshots).admit(pod("u", 5, **some)))
    assert "no node can ever run this pod" in result["warnings"][0]


_SHIPPED = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text()
_CALLS_FOR_EACH_NAME = 120


def _name_resources(form: str, number: int, *, with_limits: bool) -> Json:
    amounts = {form % each: "1" for each in range(number)}
    resources = {"requests": amounts} | ({"limits": amounts} if with_limits else {})
    return {"containers": [{"name": "c", "resources": resources}]}


@pytest.mark.parametrize("form", ["a.b/x%06d", "A_/x%06d", "x%06d", "kubernetes.io/x%06d", "requests.a.b/x%06d"])
@pytest.mark.parametrize("with_limits", [False, True], ids=["without limits", "with limits"])
def test_the_work_on_a_pod_grows_with_its_names_and_each_costs_little(form: str, *, with_limits: bool) -> None:
    number = 4_000

    def count(names: int) -> int:
        return _count_calls(fixture, pod("u", 1, **_name_resources(form, names, with_limits=with_limits)))

    fixture = GateFixture(_SHIPPED)
    count(number)  # compile what is compiled once
    calls, twice = count(number), count(2 * number)
    assert twice - calls < _CALLS_FOR_EACH_NAME * number


def test_the_answer_to_a_pod_with_many_names_is_bounded_and_always_the_same() -> None:
    body = pod("u", 1, **_name_resources("a.b/x%06d", 20_000, with_limits=False))
    answers = [GateFixture(_SHIPPED).admit(body).body for _ in range(2)]
    result = response(GateFixture(_SHIPPED).admit(body))
    assert answers[0] == answers[1]
    assert not result["allowed"]
    assert "a.b/x000000 is requested without a limit" in result["status"]["message"]
    assert len(result["status"]["details"]["causes"]) == 200
    assert len(answers[0]) < 100_000
