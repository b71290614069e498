"""The pods in objects of other projects: templates, paths, counts and identities, and rules on several templates."""

import json
from typing import Any

import pytest

from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.request import AdmissionRequest, Phase
from tallygate.admission.rule_index import RuleIndex
from tallygate.policy.parse import parse
from tallygate.policy.workload_kinds import FieldPath, PathError, Wildcard

GPU = "nvidia.com/gpu"


def create_template(amount: str = "1", name: str = "main") -> dict[str, Any]:
    """Return a pod template with one container that limits GPUs."""
    return {"spec": {"containers": [{"name": name, "resources": {"limits": {GPU: amount}}}]}}


def read_pods(group: str, kind: str, spec: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the path of each template in an object, and the number of its pods."""
    target = REVIEW_TARGETS[group, kind]
    views = target.list_pods(target.decode(json.dumps({"spec": spec}).encode()))
    return [
        (
            view.locate("spec.containers[0].resources").removesuffix(".resources"),
            view.replicas.count if view.replicas else -1,
        )
        for view in views
    ]


JOB = {"template": create_template()}
LEADER_WORKERS = {"workerTemplate": create_template()}


@pytest.mark.parametrize(
    ("group", "kind", "spec", "expected"),
    [
        pytest.param(
            "jobset.x-k8s.io",
            "JobSet",
            {
                "replicatedJobs": [
                    {"replicas": 2, "template": {"spec": {**JOB, "parallelism": 4, "completions": 3}}},
                    {"template": {"spec": JOB}},
                ]
            },
            [
                ("spec.replicatedJobs[0].template.spec.template.spec.containers[0]", 6),
                ("spec.replicatedJobs[1].template.spec.template.spec.containers[0]", 1),
            ],
            id="replicas times the smaller of parallelism and completions",
        ),
        pytest.param(
            "jobset.x-k8s.io",
            "JobSet",
            {"suspend": True, "replicatedJobs": [{"template": {"spec": JOB}}]},
            [("spec.replicatedJobs[0].template.spec.template.spec.containers[0]", 0)],
            id="a suspended object makes no pods",
        ),
        pytest.param(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {**LEADER_WORKERS, "size": 4}},
            [
                ("spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]", 2),
                ("spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]", 6),
            ],
            id="without a template for leaders they are workers",
        ),
        pytest.param(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {**LEADER_WORKERS, "leaderTemplate": create_template()}},
            [
                ("spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0]", 1),
                ("spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]", 0),
            ],
            id="a group of one has no worker",
        ),
        pytest.param(
            "kubeflow.org",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": JOB, "Worker": {**JOB, "replicas": 3}}},
            [
                ("spec.pytorchReplicaSpecs.Master.template.spec.containers[0]", 1),
                ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]", 3),
            ],
            id="each role has a template",
        ),
        pytest.param(
            "kubeflow.org",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"a.b": JOB}},
            [("spec.pytorchReplicaSpecs[a.b].template.spec.containers[0]", 1)],
            id="a key with a dot stands in brackets",
        ),
        pytest.param(
            "trainer.kubeflow.org",
            "TrainJob",
            {"trainer": {"numNodes": 4, "resourcesPerNode": {"limits": {GPU: 1}}}},
            [("spec.trainer.resourcesPerNode", 4)],
            id="the resources of a node",
        ),
        pytest.param("jobset.x-k8s.io", "JobSet", {}, [], id="no template"),
        pytest.param("jobset.x-k8s.io", "JobSet", {"replicatedJobs": None}, [], id="a field that is null"),
    ],
)
def test_every_template_is_found_with_its_count(
    group: str, kind: str, spec: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    assert read_pods(group, kind, spec) == expected


def test_a_field_of_another_type_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^Expected `array`, got `object` - at `\$\.spec\.replicatedJobs`$"):
        read_pods("jobset.x-k8s.io", "JobSet", {"replicatedJobs": {"a": 1}})


@pytest.mark.parametrize(
    ("text", "offset"),
    [("", 0), (".spec", 0), ("spec..a", 4), ("spec[0]", 4), ("spec.*x", 6), ('a["b"', 1), ("[*].a", 0)],
)
def test_what_is_no_path_is_an_error_at_its_offset(text: str, offset: int) -> None:
    with pytest.raises(PathError) as caught:
        FieldPath.parse(text)
    assert caught.value.offset == offset


def test_a_path_has_fields_keys_and_wildcards() -> None:
    path = FieldPath.parse('spec.tasks[*].roles.*.labels["a.b/c"]')
    assert path.steps == ("spec", "tasks", Wildcard.ITEMS, "roles", Wildcard.VALUES, "labels", "a.b/c")


RULES = b"""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole-gpus}
spec: {resources: [nvidia.com/gpu], checks: {wholeQuantity: true, requestsEqualLimits: fill}}
"""


def evaluate(
    spec: dict[str, Any], old_spec: dict[str, Any] | None = None, phase: Phase = Phase.VALIDATING
) -> tuple[list[str], list[str]]:
    """Return the fields of the problems of a PyTorchJob, and the paths of its patch."""
    rules = RuleIndex(parse([("policies.yaml", RULES)]).policies)
    request = AdmissionRequest(
        "PyTorchJob",
        "UPDATE" if old_spec is not None else "CREATE",
        json.dumps({"spec": spec}).encode(),
        json.dumps({"spec": old_spec}).encode() if old_spec is not None else None,
        group="kubeflow.org",
        namespace="team-a",
    )
    verdict = evaluate_request(request, rules, {}, phase)
    return [problem.field for problem in verdict.problems], [str(each["path"]) for each in verdict.patch]


def test_each_template_is_evaluated() -> None:
    spec = {"pytorchReplicaSpecs": {role: {"template": create_template("500m")} for role in ("Master", "Worker")}}
    fields, _ = evaluate(spec)
    assert fields == [
        f"spec.pytorchReplicaSpecs.{role}.template.spec.containers[0].resources.limits[{GPU}]"
        for role in ("Master", "Worker")
    ]


def test_a_problem_of_one_template_excuses_no_other() -> None:
    old = {"pytorchReplicaSpecs": {"Master": {"template": create_template("500m")}}}
    new = {"pytorchReplicaSpecs": {**old["pytorchReplicaSpecs"], "Worker": {"template": create_template("500m")}}}
    assert evaluate(new, old)[0] == [
        f"spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.limits[{GPU}]"
    ]
    assert evaluate(new, new)[0] == []


def test_missing_requests_of_each_template_are_filled() -> None:
    spec = {"pytorchReplicaSpecs": {"Master": JOB, "a.b": JOB}}
    assert evaluate(spec, phase=Phase.MUTATING)[1] == [
        "/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/resources/requests",
        "/spec/pytorchReplicaSpecs/a.b/template/spec/containers/0/resources/requests",
    ]
