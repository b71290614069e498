"""Objects that start no pods: the fields of each known kind by which its project's controller starts none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.policy.known_kinds import KNOWN_KINDS
from tests.admission.test_pod_sets import create_template

POD = create_template()["spec"]
WORKER = {"template": create_template()}
JOBS = {"replicatedJobs": [{"template": {"spec": WORKER}}]}
ROLES = {"Worker": {"replicas": 2, **WORKER}}
RAY = {"headGroupSpec": WORKER}
RAY_JOB = {"rayClusterSpec": RAY, "submitterPodTemplate": create_template()}
STEPS = {"templates": [{"container": POD["containers"][0]}]}
SPARK = {"driver": WORKER, "executor": WORKER}
METRICS = {"metrics": [{"provider": {"job": {"spec": WORKER}}}]}
WRAPPED = {"apiVersion": "batch/v1", "kind": "Job", "spec": WORKER}

TASK = {"steps": [{"computeResources": POD["containers"][0]["resources"]}]}
MULTIKUEUE = "kueue.x-k8s.io/multikueue"

SUSPENDED: list[tuple[str, dict[str, Any], str, object]] = [
    ("JobSet.jobset.x-k8s.io", JOBS, "spec.suspend", True),
    ("PyTorchJob.kubeflow.org", {"pytorchReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("TFJob.kubeflow.org", {"tfReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("XGBoostJob.kubeflow.org", {"xgbReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("PaddleJob.kubeflow.org", {"paddleReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("JAXJob.kubeflow.org", {"jaxReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("MPIJob.kubeflow.org", {"mpiReplicaSpecs": ROLES}, "spec.runPolicy.suspend", True),
    ("TrainJob.trainer.kubeflow.org", {"trainer": {"resourcesPerNode": {}}}, "spec.suspend", True),
    ("CronJob.batch.volcano.sh", {"jobTemplate": {"spec": {"tasks": [ROLES["Worker"]]}}}, "spec.suspend", True),
    ("Workload.kueue.x-k8s.io", {"podSets": [{"count": 2, **WORKER}]}, "spec.active", False),
    ("AppWrapper.workload.codeflare.dev", {"components": [{"template": WRAPPED}]}, "spec.suspend", True),
    ("RayCluster.ray.io", RAY, "spec.suspend", True),
    ("RayJob.ray.io", RAY_JOB, "spec.suspend", True),
    ("RayJob.ray.io", RAY_JOB, "spec.rayClusterSpec.suspend", True),
    ("RayCronJob.ray.io", {"jobTemplate": RAY_JOB}, "spec.suspend", True),
    ("RayCronJob.ray.io", {"jobTemplate": RAY_JOB}, "spec.jobTemplate.suspend", True),
    ("RayCronJob.ray.io", {"jobTemplate": RAY_JOB}, "spec.jobTemplate.rayClusterSpec.suspend", True),
    ("RayService.ray.io", {"rayClusterConfig": RAY}, "spec.rayClusterConfig.suspend", True),
    ("Experiment.argoproj.io", {"templates": [WORKER]}, "spec.terminate", True),
    ("AnalysisRun.argoproj.io", METRICS, "spec.terminate", True),
    ("Workflow.argoproj.io", STEPS, "spec.suspend", True),
    ("Workflow.argoproj.io", STEPS, "spec.shutdown", "Terminate"),
    ("CronWorkflow.argoproj.io", {"workflowSpec": STEPS}, "spec.suspend", True),
    ("CronWorkflow.argoproj.io", {"workflowSpec": STEPS}, "spec.workflowSpec.suspend", True),
    ("CronWorkflow.argoproj.io", {"workflowSpec": STEPS}, "spec.workflowSpec.shutdown", "Stop"),
    ("Sandbox.agents.x-k8s.io", {"podTemplate": create_template()}, "spec.operatingMode", "Suspended"),
    ("RayClusterFleet.orchestration.aibrix.ai", {"template": {"spec": RAY}}, "spec.template.spec.suspend", True),
    ("BroadcastJob.apps.kruise.io", WORKER, "spec.paused", True),
    ("TaskRun.tekton.dev", {"taskSpec": TASK}, "spec.status", "TaskRunCancelled"),
    ("PipelineRun.tekton.dev", {"pipelineSpec": {"tasks": [{"taskSpec": TASK}]}}, "spec.status", "PipelineRunPending"),
    ("Notebook.kubeflow.org", WORKER, "metadata.annotations.kubeflow-resource-stopped", "2026-01-01T00:00:00Z"),
    (
        "InferenceService.serving.kserve.io",
        {"predictor": POD},
        'metadata.annotations["serving.kserve.io/stop"]',
        "true",
    ),
    (
        "LLMInferenceService.serving.kserve.io",
        {"template": POD},
        'metadata.annotations["serving.kserve.io/stop"]',
        "true",
    ),
    ("SparkApplication.sparkoperator.k8s.io", SPARK, "spec.suspend", True),
    ("JobSet.jobset.x-k8s.io", JOBS, "spec.managedBy", MULTIKUEUE),
    ("PyTorchJob.kubeflow.org", {"pytorchReplicaSpecs": ROLES}, "spec.runPolicy.managedBy", MULTIKUEUE),
    ("TFJob.kubeflow.org", {"tfReplicaSpecs": ROLES}, "spec.runPolicy.managedBy", MULTIKUEUE),
    ("XGBoostJob.kubeflow.org", {"xgbReplicaSpecs": ROLES}, "spec.runPolicy.managedBy", MULTIKUEUE),
    ("PaddleJob.kubeflow.org", {"paddleReplicaSpecs": ROLES}, "spec.runPolicy.managedBy", MULTIKUEUE),
    ("MPIJob.kubeflow.org", {"mpiReplicaSpecs": ROLES}, "spec.runPolicy.managedBy", MULTIKUEUE),
    ("AppWrapper.workload.codeflare.dev", {"components": [{"template": WRAPPED}]}, "spec.managedBy", MULTIKUEUE),
    ("RayCluster.ray.io", RAY, "spec.managedBy", MULTIKUEUE),
    ("RayJob.ray.io", RAY_JOB, "spec.managedBy", MULTIKUEUE),
    ("RayService.ray.io", {"rayClusterConfig": RAY}, "spec.managedBy", MULTIKUEUE),
    ("ScheduledSparkApplication.sparkoperator.k8s.io", {"template": SPARK}, "spec.suspend", True),
    ("ScheduledSparkApplication.sparkoperator.k8s.io", {"template": SPARK}, "spec.template.suspend", True),
]
PATHS = {kind: [*kind.suspended, *(each.path for each in kind.expected)] for kind in KNOWN_KINDS}
STEPS_BY_FIELD = {path.text: path.steps for paths in PATHS.values() for path in paths}


def count_pods(name: str, spec: dict[str, Any], field: str, value: object) -> int:
    """Return the number of pods in an object with a field set to a value; None leaves it out."""
    body: dict[str, Any] = json.loads(json.dumps({"metadata": {"name": "a"}, "spec": spec}))
    *parents, last = STEPS_BY_FIELD[field]
    fields = body
    for step in parents:
        fields = fields.setdefault(step, {})
    if value is not None:
        fields[str(last)] = value
    kind, _, group = name.partition(".")
    target = REVIEW_TARGETS[group, kind]
    views = target.list_pods(target.decode(json.dumps(body).encode()))
    return sum(view.replicas.count for view in views if view.replicas)


@pytest.mark.parametrize(
    ("name", "spec", "field", "value"),
    SUSPENDED,
    ids=[f"{name.partition('.')[0]} {field}" for name, _, field, _ in SUSPENDED],
)
def test_an_object_that_is_suspended_starts_no_pods(name: str, spec: dict[str, Any], field: str, value: object) -> None:
    assert count_pods(name, spec, field, value) == 0


@pytest.mark.parametrize(
    ("name", "spec", "field", "value"),
    SUSPENDED,
    ids=[f"{name.partition('.')[0]} {field}" for name, _, field, _ in SUSPENDED],
)
def test_an_object_that_is_not_suspended_starts_pods(
    name: str, spec: dict[str, Any], field: str, value: object
) -> None:
    assert count_pods(name, spec, field, None)
    opposite = not value if isinstance(value, bool) else ""
    if field.startswith("spec."):
        assert count_pods(name, spec, field, opposite)


@pytest.mark.parametrize(
    ("manager", "expected"),
    [("kueue.x-k8s.io/multikueue", 0), ("kubernetes.io/job-controller", 1), (None, 1)],
    ids=["another controller", "its controller", "no one"],
)
def test_a_job_makes_pods_by_the_controller_that_manages_it(manager: str | None, expected: int) -> None:
    target = REVIEW_TARGETS["batch", "Job"]
    body = {"metadata": {"name": "a"}, "spec": {**WORKER, "managedBy": manager}}
    (view,) = target.list_pods(target.decode(json.dumps(body).encode()))
    assert view.replicas is not None
    assert view.replicas.count == expected


def test_the_cases_have_every_field_of_the_known_kinds() -> None:
    assert {(name, field) for name, _, field, _ in SUSPENDED} == set(_list_fields())


def _list_fields() -> Iterator[tuple[str, str]]:
    for kind, paths in PATHS.items():
        for path in paths:
            yield f"{kind.kind}.{kind.group}", path.text
