"""Judging: every case on disk, and what holds for any change."""

from typing import Any

import pytest

from tests.admission.case import Case, change, policies, read, said
from webhook.accounting.quantity_parser import INT64_MAX
from webhook.admission.evaluate import evaluate_request
from webhook.admission.object_checks import MAX_VIOLATIONS
from webhook.admission.request import Phase
from webhook.admission.rule_index import RuleIndex

CASES = read()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_verdict_is_what_the_sentence_says(case: Case) -> None:
    assert said(case.verdict()) == case.answers


def test_of_countless_faults_so_many_are_told_as_anyone_might_read() -> None:
    limits = {f"Bad-{number}": "1" for number in range(20 * MAX_VIOLATIONS)}
    asks = {"object": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}}
    rules = RuleIndex(policies(NAMES))
    assert len(evaluate_request(change(asks), rules, None, Phase.VALIDATING).problems) == MAX_VIOLATIONS


def test_what_a_rule_merely_warns_of_never_hides_what_another_refuses() -> None:
    limits = {f"warned.io/{number}": "500m" for number in range(2 * MAX_VIOLATIONS)} | {"denied.io/x": "500m"}
    verdict = evaluate_request(change(pod(limits)), RuleIndex(policies(WARNED_AND_DENIED)), None, Phase.VALIDATING)
    assert [problem.rule for problem in verdict.problems] == ["denied"]
    assert len(verdict.warnings) == MAX_VIOLATIONS


@pytest.mark.parametrize("new", [{}, {"Worse-1": "1"}], ids=["nothing is said of an update", "what is new is refused"])
def test_where_countless_faults_are_stored(new: dict[str, str]) -> None:
    stored = {f"Bad-{number}": "1" for number in range(2 * MAX_VIOLATIONS)}
    asks = {
        "old": {"kind": "Node", "status": {"capacity": stored}},
        "object": {"kind": "Node", "status": {"capacity": stored | new}},
        "subresource": "status",
    }
    problems = evaluate_request(change(asks), RuleIndex(policies(NAMES)), None, Phase.VALIDATING).problems
    assert [problem.field for problem in problems] == [f"status.capacity[{name}]" for name in new]


def test_a_name_of_more_digits_than_python_reads_is_refused_like_any_other() -> None:
    problems = evaluate_request(
        change(pod({"1" * 5000: "1"})), RuleIndex(policies(NAMES)), None, Phase.VALIDATING
    ).problems
    assert [problem.code for problem in problems] == ["TG102"]


def test_amounts_that_are_too_large_only_by_their_number_are_refused_at_the_pod() -> None:
    each = {"resources": {"limits": {"example.com/a": str(INT64_MAX // 8000)}}}
    asks = {"object": {"spec": {"containers": [{"name": f"c{number}"} | each for number in range(8001)]}}}
    problems = evaluate_request(change(asks), RuleIndex(policies(WHOLE)), None, Phase.VALIDATING).problems
    assert [(problem.field, problem.code) for problem in problems] == [("spec", "TG110")]


def pod(limits: dict[str, str]) -> dict[str, Any]:
    """What a case asks: one container with these limits."""
    return {"object": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}}


NAMES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: names}
spec: {resources: ["*"], checks: {wholeQuantity: false, requestsEqualLimits: false}}
"""

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""
WARNED_AND_DENIED = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: warned}
spec: {resources: [warned.io/*], enforcement: warn}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: denied}
spec: {resources: [denied.io/*]}
"""
