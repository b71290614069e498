"""The gate would say nothing about objects that it is not asked about, whatever the policies and the cluster are.

`python -m tests.agreement.test_asked 10000` prints the questions of 10,000 drawn cases for `tests/oracle/conditions`.
"""

import copy
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, settings

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.admission.match_conditions import MatchConditions, Part
from tallygate.admission.request import Phase as AdmissionPhase
from tallygate.policy.parse import parse
from tests.admission.conditions import evaluate_condition
from tests.agreement.answers import GateWorld, write_stream
from tests.agreement.asked import ASKED_CASES
from tests.agreement.drawn import DrawnCase, Object
from tests.effort import examples

_OF_POLICY = re.compile(r"\((?P<code>TG\d{3}), (rule|cap|implied request) ")


class _AskedWorld(GateWorld):
    """A gate that is asked about everything, and compares its answers with the conditions; the questions are kept."""

    conditions: MatchConditions
    questions: list[Object]

    def _review(self, body: Object, phase: AdmissionPhase, *, dry_run: bool) -> Mapping[str, Any]:
        group, _, version = body["apiVersion"].rpartition("/")
        request = {
            "kind": {"group": group, "version": version, "kind": body["kind"]},
            "resource": BUILT_IN_TARGETS[group, body["kind"]].plural,
            "namespace": body["metadata"]["namespace"],
            "operation": "CREATE",
            "object": copy.deepcopy(body),
        }
        expression = self.conditions.create(phase, Part.NAMESPACED)
        is_asked, _ = evaluate_condition(expression, request)
        self.questions.append({"condition": expression, "request": request})
        response = super()._review(body, phase, dry_run=dry_run)
        if not is_asked:
            assert response["allowed"], (expression, response)
            assert "patch" not in response, expression
            texts = " ".join([*response.get("warnings", ()), *response.get("auditAnnotations", {}).values()])
            assert not _OF_POLICY.search(texts), (expression, texts)
        return {**response, "warnings": [], "auditAnnotations": {}}


def compare(case: DrawnCase) -> Iterator[Object]:
    """Create the object of a case in a gate that is asked about everything, and yield the questions."""
    parsed = parse([("policies.yaml", write_stream(case.policies).encode())])
    assume(parsed.is_usable)
    with TemporaryDirectory() as folder:
        world = _AskedWorld(case, parsed.policies, Path(folder))
        gives_devices = any(body["kind"] == "LimitRange" for body in case.stored)
        world.conditions = MatchConditions(parsed.policies, gives_devices=gives_devices)
        world.questions = []
        world.create(case.created)
        yield from world.questions


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ASKED_CASES)
def test_the_gate_says_nothing_about_what_it_is_not_asked(case: DrawnCase) -> None:
    """Compare each answer to a review with the condition of its webhook."""
    assert [*compare(case)]


def write_questions(count: int) -> None:
    """Print the questions of this number of drawn cases."""

    @settings(max_examples=count, deadline=None, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
    @given(ASKED_CASES)
    def write(case: DrawnCase) -> None:
        for question in compare(case):
            sys.stdout.write(f"{json.dumps(question)}\n")

    write()


if __name__ == "__main__":
    write_questions(int(sys.argv[1]))
