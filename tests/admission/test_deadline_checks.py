"""Deadlines of pods that Jobs of other projects make, and of pods that are alike but for their owner."""

import json
from typing import Any

import pytest

from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import AdmissionRequest, Phase, ReviewError, UserInfo, Verdict
from tallygate.admission.rule_index import RuleIndex
from tests.admission.case import parse_policies

RULES = parse_policies("""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: a-day}
spec: {resources: [extended], checks: {activeDeadlineSeconds: {max: 24h}, requestsEqualLimits: false}}
""")
LABELLED = parse_policies("""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: a-day}
spec:
  resources: [extended]
  match: {namespaces: {selector: {matchLabels: {tier: gold}}}}
  checks: {activeDeadlineSeconds: {max: 24h}, requestsEqualLimits: false}
""")
SPEC = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
OF_JOB = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]}
JOB_CONTROLLER = UserInfo("system:serviceaccount:kube-system:job-controller")


def _evaluate(
    group: str,
    body: dict[str, Any],
    rules: RuleIndex | None = None,
    user: UserInfo = UserInfo("jane"),
) -> Verdict:
    content = json.dumps(body).encode()
    request = AdmissionRequest(body["kind"], "CREATE", content, group=group, namespace="team-a", user=user)
    return evaluate_request(request, rules or RuleIndex(RULES), None, Phase.VALIDATING)


def _list_fields(verdict: Verdict) -> list[tuple[str, str]]:
    return [(problem.field, problem.code) for problem in verdict.problems]


def _create_job_set(seconds: int | None) -> dict[str, Any]:
    job = {"template": {"spec": SPEC}} | ({} if seconds is None else {"activeDeadlineSeconds": seconds})
    return {"kind": "JobSet", "spec": {"replicatedJobs": [{"name": "workers", "template": {"spec": job}}]}}


@pytest.mark.parametrize(
    ("seconds", "codes"), [(None, ["TG123"]), (86400, []), (86401, ["TG124"])], ids=["none", "the maximum", "more"]
)
def test_the_deadline_of_the_jobs_of_a_job_set_counts(seconds: int | None, codes: list[str]) -> None:
    field = "spec.replicatedJobs[0].template.spec.activeDeadlineSeconds"
    found = _list_fields(_evaluate("jobset.x-k8s.io", _create_job_set(seconds)))
    assert found == [(field, code) for code in codes]


def test_a_deadline_of_a_job_set_that_is_no_number_is_named() -> None:
    """Expect an error with the path, as for each field of a wrong type."""
    body = _create_job_set(None)
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = "1h"
    with pytest.raises(ReviewError, match=r"template\.spec\.activeDeadlineSeconds"):
        _evaluate("jobset.x-k8s.io", body)


def test_the_deadline_of_a_contained_job_counts() -> None:
    """Evaluate a Job in an AppWrapper, with the path in the AppWrapper."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": SPEC}}}
    wrapper = {"kind": "AppWrapper", "spec": {"components": [{"template": job}]}}
    field = "spec.components[0].template.spec.activeDeadlineSeconds"
    assert _list_fields(_evaluate("workload.codeflare.dev", wrapper)) == [(field, "TG123")]
    job["spec"]["activeDeadlineSeconds"] = 60  # type: ignore[index]  # a mapping
    assert _evaluate("workload.codeflare.dev", wrapper).is_allowed


def test_pods_of_other_controllers_need_a_deadline_of_their_own() -> None:
    """Evaluate a PyTorchJob, whose operator makes pods: its own deadline is not in them."""
    replicas = {"Worker": {"replicas": 1, "template": {"spec": SPEC}}}
    body = {"kind": "PyTorchJob", "spec": {"runPolicy": {"activeDeadlineSeconds": 60}, "pytorchReplicaSpecs": replicas}}
    field = "spec.pytorchReplicaSpecs.Worker.template.spec.activeDeadlineSeconds"
    assert _list_fields(_evaluate("kubeflow.org", body)) == [(field, "TG123")]


def test_a_pod_of_a_job_makes_no_other_pod_pass() -> None:
    """Evaluate a pod of a Job, and then the same pod of a user: results are cached by the spec of the pod."""
    rules = RuleIndex(RULES)
    pod_of_job = {"kind": "Pod", "metadata": OF_JOB, "spec": SPEC}
    assert _evaluate("", pod_of_job, rules, JOB_CONTROLLER).is_allowed
    assert _list_fields(_evaluate("", {"kind": "Pod", "spec": SPEC}, rules)) == [
        ("spec.activeDeadlineSeconds", "TG123")
    ]
    assert _evaluate("", pod_of_job, rules, JOB_CONTROLLER).is_allowed


def test_a_job_makes_no_other_job_pass() -> None:
    """Evaluate two Jobs whose templates are alike, in one rule index, which caches results by the spec of the pod."""
    rules = RuleIndex(RULES)
    for seconds, codes in ((60, []), (90000, ["TG124"]), (60, [])):
        body = {"kind": "Job", "spec": {"activeDeadlineSeconds": seconds, "template": {"spec": SPEC}}}
        assert [code for _, code in _list_fields(_evaluate("batch", body, rules))] == codes


_CLAIMS = {"containers": [{}], "resourceClaims": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({**SPEC, "activeDeadlineSeconds": 60}, SPEC, "TG123"),
        ({**SPEC, "activeDeadlineSeconds": 60}, {**SPEC, "activeDeadlineSeconds": 90000}, "TG124"),
        ({"containers": [{}]}, _CLAIMS, "TG123"),
        ({**_CLAIMS, "activeDeadlineSeconds": 60}, _CLAIMS, "TG123"),
    ],
    ids=["no deadline", "a longer deadline", "claims", "claims without a deadline"],
)
def test_a_pod_that_passes_makes_no_pod_pass_that_differs_in_what_the_rule_checks(
    first: dict[str, Any], second: dict[str, Any], code: str
) -> None:
    rules = RuleIndex(RULES)
    for _ in range(2):
        assert _evaluate("", {"kind": "Pod", "spec": first}, rules).is_allowed
        assert _list_fields(_evaluate("", {"kind": "Pod", "spec": second}, rules)) == [
            ("spec.activeDeadlineSeconds", code)
        ]


@pytest.mark.parametrize("spec", [SPEC, {"containers": [{}], "resourceClaims": [{"name": "a"}]}], ids=["name", "claim"])
def test_a_rule_for_unknown_labels_is_not_evaluated(spec: dict[str, Any]) -> None:
    verdict = _evaluate("", {"kind": "Pod", "spec": spec}, RuleIndex(LABELLED))
    assert verdict.is_allowed
    assert len(verdict.unknown) == 1
