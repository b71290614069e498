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
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import Phase as AdmissionPhase
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.parse import parse
from tests.admission.conditions import list_asked
from tests.agreement.answers import GateWorld, write_stream
from tests.agreement.asked import ASKED_CASES
from tests.agreement.drawn import NAMESPACES, DrawnCase, Object
from tests.effort import examples

_OF_POLICY = re.compile(r"\((?P<code>TG\d{3}), (rule|cap|implied request) ")


class _AskedWorld(GateWorld):
    """A gate that is asked about everything, and compares its answers with its webhooks; the questions are kept."""

    configurations: Mapping[AdmissionPhase, WebhookConfiguration]
    labels: Mapping[str, Mapping[str, str]]
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
        labels = {**self.labels[request["namespace"]], "kubernetes.io/metadata.name": request["namespace"]}
        webhooks = list(list_asked(self.configurations[phase], request))
        called = [webhook.is_called(request, labels) for webhook in webhooks]
        listed = [{"namespaceSelector": each.selector, "conditions": each.conditions} for each in webhooks]
        self.questions.append({"webhooks": listed, "labels": labels, "request": request})
        assert sum(called) <= 1, listed
        response = super()._review(body, phase, dry_run=dry_run)
        if not any(called):
            assert response["allowed"], (listed, response)
            assert "patch" not in response, listed
            texts = " ".join([*response.get("warnings", ()), *response.get("auditAnnotations", {}).values()])
            assert not _OF_POLICY.search(texts), (listed, texts)
        return {**response, "warnings": [], "auditAnnotations": {}}


def compare(case: DrawnCase) -> Iterator[Object]:
    """Create the object of a case in a gate that is asked about everything, and yield the questions."""
    parsed = parse([("policies.yaml", write_stream(case.policies).encode())])
    assume(parsed.is_usable)
    with TemporaryDirectory() as folder:
        world = _AskedWorld(case, parsed.policies, Path(folder))
        gives_devices = any(body["kind"] == "LimitRange" for body in case.stored)
        conditions = MatchConditions(parsed.policies, gives_devices=gives_devices)
        configurations = create_webhook_configurations(ServiceTarget(), conditions=conditions)
        world.configurations = dict(zip(AdmissionPhase, configurations, strict=True))
        world.labels = {body["metadata"]["name"]: body["metadata"]["labels"] for body in case.stored[: len(NAMESPACES)]}
        world.questions = []
        world.create(case.created)
        yield from world.questions


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ASKED_CASES)
def test_the_gate_says_nothing_about_what_it_is_not_asked(case: DrawnCase) -> None:
    """Compare each answer to a review with the calls of the webhooks, of which one at most is called."""
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
