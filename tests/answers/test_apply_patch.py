"""Application of the JSON patch of the gate."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import CREATE, AdmissionRequest, Phase
from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.api_validation import apply_patch
from tallygate.policy.parse import parse

FILL = b"""\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fill}
spec: {resources: [extended], checks: {requestsEqualLimits: fill}}
"""
NAMES = st.sampled_from(["nvidia.com/gpu", "example.com/dongle", "cpu"])
LISTS = st.dictionaries(NAMES, st.sampled_from(["1", 2, "3Ki"]), max_size=3)


def test_an_operation_adds_a_value_at_its_path() -> None:
    """Follow lists and mappings, unescape the path, and leave the text of other numbers unchanged."""
    body = b'{"n": 1.50, "spec": {"containers": [{}, {"resources": {"limits": {"a": 1}, "x": 1e5}}]}}'
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/containers/1/resources/limits/x.y~1z~0", "value": "2"},
        {"op": "add", "path": "/spec/containers/1/resources/requests", "value": {"b": 1}},
    ]
    patched = apply_patch(body, patch)
    assert json.loads(patched) == {
        "n": 1.5,
        "spec": {
            "containers": [{}, {"resources": {"limits": {"a": 1, "x.y/z~": "2"}, "x": 1e5, "requests": {"b": 1}}}]
        },
    }
    assert b"1.50" in patched
    assert b"1e5" in patched


def test_an_empty_patch_changes_nothing() -> None:
    assert apply_patch(b'{"a": 1}', []) == b'{"a": 1}'


@pytest.fixture(scope="module")
def rules() -> RuleIndex:
    """Return the index of a rule with `fill`."""
    parsed = parse([("fill.yaml", FILL)])
    assert parsed.is_usable
    return RuleIndex(parsed.policies)


@given(st.lists(st.fixed_dictionaries({}, optional={"requests": LISTS, "limits": LISTS}), min_size=1, max_size=3))
def test_a_filled_object_needs_no_second_patch(rules: RuleIndex, resources: list[dict[str, Any]]) -> None:
    """Check that both sides of every extended resource exist, and that no other field has changed."""
    pod = {"spec": {"containers": [{"name": f"c{i}", "resources": each} for i, each in enumerate(resources)]}}
    before = json.dumps(pod).encode()
    patch = evaluate_request(AdmissionRequest("Pod", CREATE, before), rules, {}, Phase.MUTATING).patch
    after = apply_patch(before, patch)
    assert not evaluate_request(AdmissionRequest("Pod", CREATE, after), rules, {}, Phase.MUTATING).patch
    for old, new in zip(resources, json.loads(after)["spec"]["containers"], strict=True):
        for side, other in (("requests", "limits"), ("limits", "requests")):
            listed = new["resources"].get(side, {})
            assert old.get(side, {}).items() <= listed.items()
            if patch:
                assert {name for name in old.get(other, {}) if name != "cpu"} <= listed.keys()
