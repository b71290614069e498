"""Judging: every case on disk, and what holds for any change."""

import pytest

from tests.admission.case import Case, change, policies, read, said
from webhook.admission.change import Phase
from webhook.admission.decide import judge
from webhook.admission.examine import MOST_FOUND
from webhook.admission.selection import RuleIndex

CASES = read()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_verdict_is_what_the_sentence_says(case: Case) -> None:
    assert said(case.verdict()) == case.answers


def test_of_countless_faults_so_many_are_told_as_anyone_might_read() -> None:
    limits = {f"Bad-{number}": "1" for number in range(20 * MOST_FOUND)}
    asks = {"object": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}}
    rules = RuleIndex(policies(NAMES))
    assert len(judge(change(asks), rules, None, Phase.VALIDATING).problems) == MOST_FOUND


NAMES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: names}
spec: {resources: ["*"], checks: {wholeQuantity: false, requestsEqualLimits: false}}
"""
