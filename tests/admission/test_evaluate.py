"""Evaluation of requests: every case on disk, and the limits of a verdict."""

from collections.abc import Iterator
from typing import Any

import pytest

from tallygate.accounting.quantity_parser import INT64_MAX
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.object_checks import MAX_VIOLATIONS, RuleViolation, ViolationCollector
from tallygate.admission.request import Phase
from tallygate.admission.rule_index import RuleIndex
from tests.admission.case import (
    create_request,
    describe_verdict,
    list_recorded,
    parse_policies,
    read_cases,
    write_verdict,
)
from tests.wording import Wordings

CASES = read_cases()
WORDINGS = Wordings(list_recorded())


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_the_expected_one(name: str) -> None:
    """Compare the facts of each problem, and each wording with the first case that has it."""
    found, wanted = WORDINGS.reduce(CASES[name].record(name), write_verdict(describe_verdict(CASES[name].evaluate())))
    assert found == wanted


def test_the_number_of_reported_problems_is_limited() -> None:
    limits = {f"Bad-{number}": "1" for number in range(20 * MAX_VIOLATIONS)}
    request = {"object": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}}
    rules = RuleIndex(parse_policies(NAMES))
    assert len(evaluate_request(create_request(request), rules, None, Phase.VALIDATING).problems) == MAX_VIOLATIONS


def test_no_check_runs_after_the_last_denial_that_is_reported() -> None:
    """Let each check yield the same problem: a pod of a stranger may have hundreds of thousands."""
    limits = {"Bad-1": "1"}
    request = {"object": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}}
    rules = RuleIndex(parse_policies(NAMES))
    (problem,) = evaluate_request(create_request(request), rules, None, Phase.VALIDATING).problems
    violation = RuleViolation(problem, rules.select("Pod", "", None).rules[0], ("same",))
    run_checks: list[int] = []

    def check() -> Iterator[RuleViolation]:
        for number in range(10):
            run_checks.append(number)
            yield violation

    collector = ViolationCollector(frozenset(), 3)
    collector.add(check())
    assert (len(collector.violations), len(run_checks)) == (3, 4)


def test_warnings_of_a_rule_never_hide_the_denial_of_another() -> None:
    limits = {f"warned.io/{number}": "500m" for number in range(2 * MAX_VIOLATIONS)} | {"denied.io/x": "500m"}
    verdict = evaluate_request(
        create_request(pod(limits)), RuleIndex(parse_policies(WARNED_AND_DENIED)), None, Phase.VALIDATING
    )
    assert [problem.rule for problem in verdict.problems] == ["denied"]
    assert len(verdict.warnings) == MAX_VIOLATIONS


@pytest.mark.parametrize(
    "new", [{}, {"Worse-1": "1"}], ids=["an update without new problems is allowed", "a new problem is denied"]
)
def test_only_new_problems_of_an_object_with_many_stored_ones_are_reported(new: dict[str, str]) -> None:
    stored = {f"Bad-{number}": "1" for number in range(2 * MAX_VIOLATIONS)}
    request = {
        "old": {"kind": "Node", "status": {"capacity": stored}},
        "object": {"kind": "Node", "status": {"capacity": stored | new}},
        "subresource": "status",
    }
    problems = evaluate_request(
        create_request(request), RuleIndex(parse_policies(NAMES)), None, Phase.VALIDATING
    ).problems
    assert [problem.field for problem in problems] == [f"status.capacity[{name}]" for name in new]


def test_a_name_with_more_digits_than_python_parses_is_denied() -> None:
    problems = evaluate_request(
        create_request(pod({"1" * 5000: "1"})), RuleIndex(parse_policies(NAMES)), None, Phase.VALIDATING
    ).problems
    assert [problem.code for problem in problems] == ["TG102"]


def test_amounts_with_a_sum_that_is_too_large_are_denied_at_the_pod() -> None:
    each = {"resources": {"limits": {"example.com/a": str(INT64_MAX // 8000)}}}
    request = {"object": {"spec": {"containers": [{"name": f"c{number}"} | each for number in range(8001)]}}}
    problems = evaluate_request(
        create_request(request), RuleIndex(parse_policies(WHOLE)), None, Phase.VALIDATING
    ).problems
    assert [(problem.field, problem.code) for problem in problems] == [("spec", "TG110")]


def pod(limits: dict[str, str]) -> dict[str, Any]:
    """Return a request with one container that has these limits."""
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
