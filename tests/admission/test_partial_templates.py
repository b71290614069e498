"""Templates that are parts of those of their pods: what they lack, another object may have."""

import json
from typing import Any

import pytest

from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.request import AdmissionRequest, Phase
from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.api_validation import find_accepted_problems, validate_object
from tallygate.policy.parse import parse
from tests.admission.test_pod_sets import GPU

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-x"
REQUEST: dict[str, Any] = {"requests": {GPU: "2", OPAQUE: "1"}, "claims": [{"name": "dev"}]}
TOO_MANY: dict[str, Any] = {"limits": {GPU: "64"}}
CONTAINER = {"name": "main", "image": "x"}
RULES = b"""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: pairs}
spec:
  resources: [nvidia.com/gpu]
  checks: {requestsEqualLimits: true, perPod: {min: 4, max: 16, multipleOf: 4}}
"""


def contain(resources: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with one container."""
    return {"containers": [{**CONTAINER, "resources": resources}]}


def _replicate(resources: dict[str, Any]) -> dict[str, Any]:
    return {
        "template": {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": contain(resources)}}}}]}}
    }


PARTS = [
    pytest.param("TrainJob.trainer.kubeflow.org", lambda r: {"trainer": {"resourcesPerNode": r}}, id="a TrainJob"),
    pytest.param("TrainingRuntime.trainer.kubeflow.org", _replicate, id="a runtime of TrainJobs"),
    pytest.param("ServingRuntime.serving.kserve.io", contain, id="a runtime of models"),
    pytest.param(
        "InferenceService.serving.kserve.io", lambda r: {"predictor": {"model": {"resources": r}}}, id="a model"
    ),
    pytest.param(
        "InferenceService.serving.kserve.io",
        lambda r: {"predictor": {"workerSpec": contain(r)}},
        id="workers of a model",
    ),
    pytest.param(
        "LLMInferenceService.serving.kserve.io",
        lambda r: {"baseRefs": [{"name": "a"}], "template": contain(r)},
        id="a language model with a base",
    ),
    pytest.param("LLMInferenceServiceConfig.serving.kserve.io", lambda r: {"template": contain(r)}, id="a base"),
    pytest.param(
        "WorkflowTemplate.argoproj.io",
        lambda r: {"templates": [{"name": "a", "container": {"resources": r}}]},
        id="a WorkflowTemplate",
    ),
    pytest.param(
        "Workflow.argoproj.io",
        lambda r: {"templates": [{"name": "a", "container": {"resources": r}, "podSpecPatch": "{{workflow.patch}}"}]},
        id="a Workflow with a patch that is a parameter",
    ),
    pytest.param("Task.tekton.dev", lambda r: {"steps": [{"name": "a", "computeResources": r}]}, id="a Task"),
]
WHOLE = [
    pytest.param(
        "InferenceService.serving.kserve.io", lambda r: {"predictor": contain(r)}, id="a predictor without a model"
    ),
    pytest.param("LLMInferenceService.serving.kserve.io", lambda r: {"template": contain(r)}, id="no base"),
    pytest.param(
        "LLMInferenceService.serving.kserve.io", lambda r: {"baseRefs": [], "template": contain(r)}, id="an empty list"
    ),
    pytest.param(
        "Workflow.argoproj.io",
        lambda r: {"templates": [{"name": "a", "container": {"resources": r}}]},
        id="a Workflow",
    ),
]


def find_codes(name: str, spec: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return the codes of what the API server rejects, of what it accepts, and of what the rules deny."""
    kind, _, group = name.partition(".")
    target = REVIEW_TARGETS[group, kind]
    body = json.dumps({"metadata": {"name": "a"}, "spec": spec}).encode()
    decoded = target.decode(body)
    views = target.list_pods(decoded)
    request = AdmissionRequest(kind, "CREATE", body, group=group)
    verdict = evaluate_request(request, RuleIndex(parse([("f", RULES)]).policies), {}, Phase.VALIDATING)
    found = (validate_object(decoded, views), find_accepted_problems(decoded, views), verdict.problems)
    rejected, accepted, denied = ([each.code for each in problems] for problems in found)
    return rejected, accepted, denied


@pytest.mark.parametrize(("name", "create"), PARTS)
def test_what_a_part_lacks_is_no_problem(name: str, create: Any) -> None:
    assert find_codes(name, create(REQUEST)) == ([], [], [])


@pytest.mark.parametrize(("name", "create"), PARTS)
def test_what_a_part_has_too_much_is_a_problem(name: str, create: Any) -> None:
    assert find_codes(name, create(TOO_MANY)) == ([], [], ["TG108"])


@pytest.mark.parametrize(("name", "create"), WHOLE)
def test_what_a_whole_template_lacks_is_a_problem(name: str, create: Any) -> None:
    rejected, accepted, denied = find_codes(name, create(REQUEST))
    assert (sorted(rejected), accepted, sorted(denied)) == (["TG012", "TG017"], ["TG061"], ["TG104", "TG108", "TG108"])


def test_a_part_makes_no_whole_pod_pass() -> None:
    """Evaluate a runtime, and then a pod with the same containers: results are cached by the spec of the pod."""
    rules = RuleIndex(parse([("f", RULES)]).policies)
    for kind, group, spec in (
        ("TrainingRuntime", "trainer.kubeflow.org", _replicate({"requests": {GPU: "2"}})),
        ("Pod", "", contain({"requests": {GPU: "2"}})),
    ):
        body = json.dumps({"metadata": {"name": "a"}, "spec": spec}).encode()
        verdict = evaluate_request(AdmissionRequest(kind, "CREATE", body, group=group), rules, {}, Phase.VALIDATING)
        codes = sorted(problem.code for problem in verdict.problems)
        assert codes == ([] if group else ["TG104", "TG108", "TG108"])
