"""The gate says nothing about a recorded review that its policies would not make an API server ask about."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import Phase
from tallygate.admission.webhook_configuration import ServiceTarget
from tests.admission.case import parse_policies
from tests.admission.conditions import evaluate_condition, list_policy_conditions
from tests.admission.plain_configurations import create_plain_configurations
from tests.gate.gate_fixture import GateFixture

_OF_POLICY = re.compile(r"\(TG\d{3}, (rule|cap|implied request) ")
CASES = Path(__file__).parent / "cases"
_SHIPPED = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text("utf-8")
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec: {namespaces: {include: [%s]}, hard: {%s: 1}}
"""
_RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: bounds}
spec: {resources: [%s], match: {kinds: [%s]}, checks: {perContainer: {max: 1}, requestsEqualLimits: false}}
"""
POLICIES = {
    "the shipped rules": _SHIPPED,
    "a cap on addresses": _CAP % ("addresses", '"*"', "example.com/ip"),
    "a cap on pods elsewhere": _CAP % ("pods", "nowhere", "pods"),
    "a cap on GPUs in one namespace": _CAP % ("gpus", "default", "nvidia.com/gpu"),
    "a rule on addresses of sets": _RULE % ("example.com/ip", "StatefulSet"),
    "a rule on other devices": _RULE % ('"other.example.com/*"', "Pod, Deployment"),
}

_ABOUT_NOTHING_RECORDED = {"a cap on pods elsewhere", "a rule on other devices"}


def list_conditions(configuration: dict[str, Any], request: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the condition of the policies of each webhook that a request is sent for, as a list that may be empty."""
    plural = "/".join(filter(None, (request["resource"]["resource"], request.get("subResource", ""))))
    for webhook in configuration["webhooks"]:
        if any(
            plural in rule["resources"]
            and request["operation"] in rule["operations"]
            and request["resource"]["group"] in rule["apiGroups"]
            for rule in webhook["rules"]
        ):
            yield list_policy_conditions(webhook.get("matchConditions", ()))


def check_silence(text: str, review: dict[str, Any], phase: Phase) -> None:
    """Check that a gate with these policies allows a review without a finding, a patch and a charge."""
    namespace = review["request"].get("namespace", "")
    gate = GateFixture(text, labels={namespace: {}})
    answer = json.loads(gate.gate.admit(json.dumps(review).encode(), phase, 5.0).body)["response"]
    assert answer["allowed"], answer
    assert "patch" not in answer
    assert not _OF_POLICY.search(" ".join(answer.get("warnings", ())))
    assert not any(gate.read_reserved(cap.name, namespace) for cap in gate.policies.caps)


@pytest.mark.parametrize("name", POLICIES)
def test_a_recorded_review_without_a_call_has_no_finding(name: str) -> None:
    """Evaluate the condition of the webhook that a review was sent for, on the objects of a real API server."""
    conditions = MatchConditions(parse_policies(POLICIES[name]), gives_devices=False)
    pair = create_plain_configurations(ServiceTarget(), conditions=conditions)
    is_asked: list[bool] = []
    for path in sorted(CASES.glob("*.json")):
        review = json.loads(path.read_text("utf-8"))
        request = review["request"]
        if request["operation"] not in {"CREATE", "UPDATE"}:
            continue
        phase = Phase(path.stem.split("-")[1])
        for expressions in list_conditions(pair[list(Phase).index(phase)], request):
            is_asked.append(all(evaluate_condition(expression, request)[0] for expression in expressions))
            if not is_asked[-1]:
                check_silence(POLICIES[name], review, phase)
    assert not all(is_asked)
    assert any(is_asked) == (name not in _ABOUT_NOTHING_RECORDED)
