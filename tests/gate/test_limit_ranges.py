"""LimitRanges that give containers devices: warnings at their own creation, and requests of pods that they have set."""

import json
from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.request import Phase
from tests.gate.gate_fixture import GateFixture, response

GPU = "nvidia.com/gpu"
RULE = f"""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: whole}}
spec: {{resources: [{GPU}], checks: {{requestsEqualLimits: fill}}}}
"""
REVIEW = (Path(__file__).parent / "request_set_by_limit_range.json").read_bytes()


def limit_range(**item: Any) -> dict[str, Any]:
    """Return a LimitRange with one entry of type Container."""
    return {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", **item}]}}


@pytest.mark.parametrize(
    ("item", "code"),
    [
        pytest.param({"max": {GPU: 1}}, "TG069", id="a maximum"),
        pytest.param({"default": {GPU: 1}}, "TG069", id="a default"),
        pytest.param({"defaultRequest": {GPU: 1}}, "TG070", id="a default request alone"),
        pytest.param({"min": {GPU: 1}}, "TG070", id="a minimum alone"),
        pytest.param({"min": {GPU: 1}, "max": {GPU: 1}}, "TG069", id="both bounds"),
        pytest.param({"max": {GPU: 0}}, "", id="none at all"),
        pytest.param({"max": {"cpu": 1}}, "", id="a resource that may be overcommitted"),
        pytest.param({"type": "Pod", "max": {GPU: 1}}, "TG070", id="a maximum of the type Pod"),
        pytest.param({"type": "Pod", "min": {GPU: 1}}, "TG070", id="a minimum of the type Pod"),
        pytest.param({"type": "Pod", "max": {"cpu": 1}}, "", id="the type Pod without devices"),
        pytest.param({"maxLimitRequestRatio": {GPU: 1}}, "TG070", id="a ratio"),
        pytest.param({"maxLimitRequestRatio": {GPU: 1}, "default": {GPU: 0}}, "", id="a ratio beside a default of 0"),
    ],
)
def test_a_limit_range_that_gives_containers_devices_is_a_warning(item: dict[str, Any], code: str) -> None:
    result = response(GateFixture(RULE).admit(limit_range(**item)))
    assert result["allowed"]
    assert [code in each for each in result.get("warnings", [])] == ([True] if code else [])


def test_a_bound_of_the_type_pod_beside_a_default_of_0_rejects_nothing() -> None:
    body = limit_range(default={GPU: 0})
    body["spec"]["limits"].append({"type": "Pod", "max": {GPU: 1}})
    assert "warnings" not in response(GateFixture(RULE).admit(body))


def test_an_update_that_leaves_the_default_gets_no_warning() -> None:
    old, new = limit_range(max={GPU: 1}), limit_range(max={GPU: 1, "cpu": 1})
    assert "warnings" not in response(GateFixture(RULE).admit(new, oldObject=old))
    (warning,) = response(GateFixture(RULE).admit(limit_range(max={GPU: 2}), oldObject=old))["warnings"]
    assert "each container that names no nvidia.com/gpu gets 2 of it" in warning


@pytest.mark.parametrize("phase", [Phase.MUTATING, Phase.VALIDATING])
@pytest.mark.parametrize("equality", ["fill", "true"])
def test_a_request_that_a_limit_range_has_set_is_named_and_never_filled_in(phase: Phase, equality: str) -> None:
    fixture = GateFixture(RULE.replace("fill", equality))
    result = response(fixture.gate.admit(REVIEW, phase, 5.0))
    assert not result["allowed"]
    assert "patch" not in result
    message = result["status"]["message"]
    assert "TG104" in message
    assert "a LimitRange of the namespace requests 1 nvidia.com/gpu for this container" in message
    assert "set limits[nvidia.com/gpu] to" not in message


def test_a_request_of_another_container_is_filled_in_as_before() -> None:
    body = json.loads(REVIEW)
    body["request"]["object"]["spec"]["containers"][0]["name"] = "trainer"
    result = response(GateFixture(RULE).gate.admit(json.dumps(body).encode(), Phase.MUTATING, 5.0))
    assert result["allowed"]
    assert result["patch"]
