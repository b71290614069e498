"""Checks of claims for devices: properties for any claim and any rule."""

import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.admission.claim_checks import compute_possible_amounts
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import Phase, ReviewError
from tallygate.admission.rule_index import RuleIndex
from tests.admission.case import create_request, describe_verdict, parse_policies
from tests.effort import examples

POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: amounts}
spec:
  resources: [extended, "!free.*"]
  checks: {perClaim: {min: 2, max: 8, multipleOf: 2}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: requests}
spec:
  resources: ["gpu.*", "deviceclass.resource.kubernetes.io/mig.*"]
  checks:
    perClaim: {oneOf: [1, 2, 3]}
    devices:
      classes: ["*.example.com"]
      allocationModes: [ExactCount]
      adminAccess: {groups: [admins]}
      selectors: required
"""
RULES = RuleIndex(parse_policies(POLICIES))

classes = st.sampled_from(["gpu.example.com", "gpu.other.org", "mig.example.com", "free.example.com", "", "Bad/Name!"])
selectors = st.lists(st.just({"cel": {"expression": "true"}}), max_size=1)
alternatives = st.fixed_dictionaries(
    {"name": st.sampled_from("ab"), "deviceClassName": classes},
    optional={
        "count": st.integers(-1, 40),
        "allocationMode": st.sampled_from(["ExactCount", "All", "", "Other"]),
        "selectors": selectors,
        "adminAccess": st.booleans(),
    },
)
requests = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("rst")},
        optional={"exactly": alternatives, "firstAvailable": st.lists(alternatives, max_size=3)},
    ),
    max_size=4,
)
FIELDS = (
    *("spec", "devices", "requests", "exactly", "firstAvailable", "count", "deviceClassName", "adminAccess"),
    *("selectors", "allocationMode", "name", "metadata", "labels", "x"),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def create_claim(device_requests: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": device_requests}}}


def create_template(device_requests: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": {"requests": device_requests}}}}


def evaluate(request: dict[str, Any]) -> dict[str, Any]:
    return describe_verdict(evaluate_request(create_request(request), RULES, None, Phase.VALIDATING))


@given(requests)
@settings(max_examples=examples(200))
def test_a_template_violates_the_rules_that_its_claims_would_violate(device_requests: list[dict[str, Any]]) -> None:
    problems = evaluate({"object": create_claim(device_requests)}).get("problems", [])
    inside = evaluate({"object": create_template(device_requests)}).get("problems", [])
    assert inside == [f"spec.{problem}" for problem in problems]


@given(requests)
@settings(max_examples=examples(200))
def test_a_claim_that_is_labelled_is_always_allowed(device_requests: list[dict[str, Any]]) -> None:
    changed = create_claim(device_requests, labels={"a": "b"})
    assert evaluate({"old": create_claim(device_requests), "object": changed}) == {}


@given(requests)
@settings(max_examples=examples(100))
def test_no_claim_of_the_scheduler_is_denied(device_requests: list[dict[str, Any]]) -> None:
    assert evaluate({"object": create_claim(device_requests), "user": "system:kube-scheduler"}) == {}


@given(
    st.sampled_from(["ResourceClaim", "ResourceClaimTemplate"]),
    st.dictionaries(st.sampled_from(["spec", "metadata", "status"]), anything, max_size=3),
)
@settings(max_examples=examples(300))
def test_a_claim_of_any_shape_is_evaluated_or_rejected(kind: str, shape: dict[str, Any]) -> None:
    try:
        found = evaluate({"object": {"kind": kind, **shape}})
    except ReviewError as error:
        assert str(error).startswith(f"the object is not a {kind}: ")  # noqa: PT017  # either outcome is right
    else:
        assert json.dumps(found)


@given(st.lists(st.frozensets(st.none() | st.integers(0, 40), max_size=3), max_size=4))
@settings(max_examples=examples(300))
def test_the_amounts_are_those_of_each_choice_of_alternatives(counts_by_request: list[frozenset[int | None]]) -> None:
    """Compare with a sum over every choice; of the amounts beyond 32 only the largest must be there."""
    amounts = set()
    for choice in itertools.product(*(counts or {0} for counts in counts_by_request)):
        total = sum(count for count in choice if count is not None)
        # All devices of a node leave no more than 32 for the claim, if the others leave any.
        amounts.add(32 if None in choice and total <= 32 else total)
    largest = max(amounts, default=0)
    expected = {amount for amount in amounts if amount <= 32 or amount == largest} - {0}
    assert compute_possible_amounts([set(counts) for counts in counts_by_request]) == expected


def test_a_claim_with_many_alternatives_is_checked_at_once() -> None:
    alternative = [{"name": str(n), "deviceClassName": "gpu.example.com", "count": 3**n} for n in range(8)]
    device_requests = [{"name": str(n), "firstAvailable": alternative} for n in range(32)]
    problems = evaluate({"object": create_claim(device_requests)})["problems"]
    assert any(f"the claim may get {32 * 3**7} devices" in problem for problem in problems)
