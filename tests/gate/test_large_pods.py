"""The largest pods that an API server lets through, full of words about nodes and other pods: they cost little more.

A request has at most 3 MiB (MaxRequestBodyBytes in apiserver config.go, v1.36), and what is stored at most 1.5 MiB.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.gate.scene import Scene, pod, response
from tests.gate.test_schedulability import NOT_NOW, RULE, cluster
from webhook.gate.schedulability import FixedSnapshot, SnapshotProvider

_MIB = 1024 * 1024
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LENIENT = 8.0  # times as long as without a cluster; unbounded most take 13 to 27 times as long, beside 4 nodes
Json = dict[str, Any]


def _term(number: int) -> Json:
    excepted = {"key": "app", "operator": "NotIn", "values": [f"app-{number}"]}
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": [excepted]}, "namespaceSelector": {}}


def _near(size: int) -> Json:
    return {"affinity": {"podAffinity": {_REQUIRED: _filled(_term, size)}}}


def _away(size: int) -> Json:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: _filled(_term, size)}}}


def _one_long_term(size: int) -> Json:
    values = _filled(lambda number: f"value-{number}", size)
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

    return {"topologySpreadConstraints": _filled(constraint, size)}


def _nodes(size: int) -> Json:
    def term(number: int) -> Json:
        return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": [str(number)]}]}

    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": _filled(term, size)}}}}


def _tolerations(size: int) -> Json:
    return {"tolerations": _filled(lambda number: {"key": f"key-{number}", "operator": "Exists"}, size)}


def _selected(size: int) -> Json:
    return {"nodeSelector": dict.fromkeys(_filled(lambda number: f"example.com/key-{number}", size), "value")}


def _filled(make: Callable[[int], Any], size: int) -> list[Any]:
    """So many that they are of this size."""
    each = len(json.dumps(make(10_000)))
    return [make(number) for number in range(size // each + 1)]


def _calls(scene: Scene, body: Json) -> int:
    """How many functions are called to judge it, Python's and C's: work that no other work on the machine changes."""
    called = 0

    def count(_frame: FrameType, event: str, _function: object) -> None:
        nonlocal called
        called += event in {"call", "c_call"}

    body["metadata"]["name"] = "again"
    sys.setprofile(count)
    try:
        scene.admit(body)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("size", [_MIB * 3 // 2, _MIB * 3], ids=["as large as is stored", "as large as is sent"])
@pytest.mark.parametrize("spec", [_near, _away, _one_long_term, _spread, _nodes, _tolerations, _selected])
def test_what_is_too_much_to_go_through_is_not_gone_through(spec: Callable[[int], Json], size: int) -> None:
    body = pod("u", 1, **spec(size))
    assert len(json.dumps(body)) >= size
    rule = RULE % ("deny", NOT_NOW)
    judging, unplaced = Scene(rule, placing=FixedSnapshot(cluster(4))), Scene(rule)
    said = response(judging.admit(body))
    assert said["allowed"]
    assert "are too complex" in said["warnings"][0]
    assert _calls(judging, body) < 2 * _calls(unplaced, body)


def test_a_pod_with_as_many_words_as_people_write_is_judged() -> None:
    some: Json = _near(1200) | {"tolerations": _tolerations(600)["tolerations"]}
    placing: SnapshotProvider = FixedSnapshot(cluster(4))
    said = response(Scene(RULE % ("warn", NOT_NOW), placing=placing).admit(pod("u", 5, **some)))
    assert "no node can ever run this pod" in said["warnings"][0]
