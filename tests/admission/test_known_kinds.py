"""The known kinds, each by what its project's controller makes of its objects."""

import json
from typing import Any

import pytest

from tallygate.accounting.validation.pods import validate_pod
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.pod_sets import CustomWorkload
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.admission.request import AdmissionRequest, Phase
from tallygate.admission.resource_fields import list_resource_fields
from tallygate.admission.rule_index import RuleIndex
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.parse import parse
from tests.admission.kinds_reference import DOCUMENT, update_kinds
from tests.admission.test_pod_sets import GPU, create_template

LARGEST = 2**31 - 1  # the default of Ray for a group without a maximum
CONTAINER: dict[str, Any] = create_template()["spec"]["containers"][0]
POD = {"containers": [CONTAINER]}
WORKER = {"template": create_template()}
TASK = {"steps": [{"name": "train", "computeResources": CONTAINER["resources"]}]}
WRAPPED_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "job"},
    "spec": {"parallelism": 3, "template": create_template()},
}
RULES = b"""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: pairs}
spec: {resources: [nvidia.com/gpu], checks: {perContainer: {multipleOf: 2}, requestsEqualLimits: fill}}
"""


def read_views(name: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> list[PodView]:
    """Return the pods in an object of a kind, whose name is given as `RayJob.ray.io`."""
    kind, _, group = name.partition(".")
    target = REVIEW_TARGETS[group, kind]
    body = {"metadata": {"name": "a", "annotations": annotations or {}}, "spec": spec}
    return list(target.list_pods(target.decode(json.dumps(body).encode())))


def read_counts(name: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, int | None]:
    """Return the number of pods by the path of their containers; None for a template that makes none by itself."""
    return {
        view.locate("spec.containers[0]"): view.replicas.count if view.replicas else None
        for view in read_views(name, spec, annotations)
    }


def wrap(template: dict[str, Any], pod_sets: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the spec of an AppWrapper with one component."""
    return {"components": [{"template": template, **({"podSets": pod_sets} if pod_sets else {})}], **spec}


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        pytest.param(
            "RayCluster.ray.io",
            {
                "headGroupSpec": WORKER,
                "workerGroupSpecs": [
                    {"replicas": 1, "minReplicas": 3, "numOfHosts": 2, **WORKER},
                    {"replicas": 9, "maxReplicas": 4, **WORKER},
                    {"minReplicas": 0, "maxReplicas": 4, **WORKER},
                    {"replicas": 2, "suspend": True, **WORKER},
                ],
            },
            {
                "spec.headGroupSpec.template.spec.containers[0]": 1,
                "spec.workerGroupSpecs[0].template.spec.containers[0]": 6,
                "spec.workerGroupSpecs[1].template.spec.containers[0]": 4,
                "spec.workerGroupSpecs[2].template.spec.containers[0]": 0,
                "spec.workerGroupSpecs[3].template.spec.containers[0]": 0,
            },
            id="groups of Ray are within their bounds",
        ),
        pytest.param(
            "Job.batch.volcano.sh",
            {"tasks": [{"replicas": 2, **WORKER}, WORKER]},
            {"spec.tasks[0].template.spec.containers[0]": 2, "spec.tasks[1].template.spec.containers[0]": 0},
            id="a task of Volcano has no replicas by default",
        ),
        pytest.param(
            "InferenceService.serving.kserve.io",
            {
                "predictor": {
                    "minReplicas": 2,
                    "model": {"resources": {"limits": {GPU: 1}}},
                    "workerSpec": {"pipelineParallelSize": 3, **POD},
                },
                "transformer": POD,
                "canary": [{"predictor": {"minReplicas": 0, **POD}}],
            },
            {
                "spec.predictor.model": 2,
                "spec.predictor.workerSpec.containers[0]": 4,
                "spec.transformer.containers[0]": 1,
                "spec.canary[0].predictor.containers[0]": 0,
            },
            id="a model of KServe is a container, and has workers for each replica",
        ),
        pytest.param(
            "LLMInferenceService.serving.kserve.io",
            {
                "replicas": 1,
                "scaling": {"minReplicas": 2, "maxReplicas": 5},
                "parallelism": {"pipeline": 3},
                "template": POD,
                "worker": POD,
                "prefill": {"template": POD},
            },
            {
                "spec.template.containers[0]": 2,
                "spec.worker.containers[0]": 4,
                "spec.prefill.template.containers[0]": 1,
            },
            id="a language model has replicas of a pipeline",
        ),
        *(
            pytest.param(
                "LLMInferenceService.serving.kserve.io",
                {"replicas": 2, "parallelism": parallelism, "template": POD, "worker": POD},
                {"spec.template.containers[0]": 2, "spec.worker.containers[0]": workers},
                id=f"a group of a language model with {text}",
            )
            for parallelism, workers, text in (
                ({"data": 16, "dataLocal": 8}, 2, "data parallelism has a pod for each local part"),
                ({"data": 16, "dataLocal": 8, "pipeline": 5}, 2, "data parallelism ignores the pipeline"),
                ({"data": 4}, 6, "data alone has a pod for each part"),
                ({"dataLocal": 8}, 0, "a local part alone has one pod"),
                ({"data": 20, "dataLocal": 8}, 2, "parts that do not divide has whole ones"),
                ({"data": 0, "pipeline": 3}, 4, "no data has its pipeline"),
            )
        ),
        pytest.param(
            "Sandbox.agents.x-k8s.io",
            {"replicas": 0, "podTemplate": create_template()},
            {"spec.podTemplate.spec.containers[0]": 0},
            id="a sandbox of v1alpha1 has replicas",
        ),
        pytest.param(
            "RoleBasedGroup.workloads.x-k8s.io",
            {
                "roleTemplates": [{"name": "base", **WORKER}, {"name": "unused", **WORKER}],
                "roles": [
                    {"name": "a", "replicas": 2, "standalonePattern": {"templateRef": {"name": "base"}}},
                    {"name": "b", "leaderWorkerPattern": {"size": 3, "templateRef": {"name": "base"}}},
                    {"name": "c", "replicas": 2, "leaderWorkerPattern": {"size": 2, **WORKER}},
                    {"name": "d", "replicas": 2, "customComponentsPattern": {"components": [{"size": 3, **WORKER}]}},
                ],
            },
            {
                "spec.roleTemplates[0].template.spec.containers[0]": 5,
                "spec.roleTemplates[1].template.spec.containers[0]": 0,
                "spec.roles[2].leaderWorkerPattern.template.spec.containers[0]": 4,
                "spec.roles[3].customComponentsPattern.components[0].template.spec.containers[0]": 6,
            },
            id="roles have templates of their own, or those of their group",
        ),
        pytest.param(
            "RoleBasedGroup.workloads.x-k8s.io",
            {
                "roleTemplates": [{"name": "base", **WORKER}],
                "roles": [
                    {"replicas": 2, "leaderWorkerSet": {"size": 2}, **WORKER},
                    {"replicas": 0, "components": [{"size": 2, **WORKER}]},
                    {"templateRef": {"name": "base"}},
                ],
            },
            {
                "spec.roles[0].template.spec.containers[0]": 4,
                "spec.roles[1].components[0].template.spec.containers[0]": 0,
                "spec.roleTemplates[0].template.spec.containers[0]": 1,
            },
            id="roles of v1alpha1 have their fields at the top",
        ),
        pytest.param(
            "StormService.orchestration.aibrix.ai",
            {"replicas": 2, "template": {"spec": {"roles": [{"replicas": 3, "podGroupSize": 2, **WORKER}, WORKER]}}},
            {
                "spec.template.spec.roles[0].template.spec.containers[0]": 12,
                "spec.template.spec.roles[1].template.spec.containers[0]": 0,
            },
            id="a role of a StormService has no replicas by default",
        ),
        pytest.param(
            "DisaggregatedSet.disaggregatedset.x-k8s.io",
            {
                "slices": 2,
                "roles": [
                    {"spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": WORKER["template"]}}}
                ],
            },
            {
                "spec.roles[0].spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]": 18,
            },
            id="each slice of a DisaggregatedSet has groups of a leader and workers",
        ),
        pytest.param(
            "NIMService.apps.nvidia.com",
            {"replicas": 3, "multiNode": {"parallelism": {"pipeline": 2}}},
            {"spec.containers[0]": 6},
            id="a NIMService on several nodes has one pod on each",
        ),
        pytest.param(
            "NIMService.apps.nvidia.com",
            {"replicas": 3, "scale": {"enabled": False, "hpa": {"minReplicas": 5}}},
            {"spec.containers[0]": 3},
            id="a NIMService that is not scaled has its replicas",
        ),
        pytest.param(
            "PipelineRun.tekton.dev",
            {
                "pipelineSpec": {
                    "tasks": [{"taskRef": {"name": "a"}}, {"taskSpec": TASK}],
                    "finally": [{"taskSpec": TASK}],
                }
            },
            {
                "spec.pipelineSpec.tasks[1].taskSpec.containers[0]": 1,
                "spec.pipelineSpec.finally[0].taskSpec.containers[0]": 1,
            },
            id="a task that another object has makes no pods here",
        ),
        pytest.param(
            "SparkApplication.sparkoperator.k8s.io",
            {
                "driver": {"gpu": {"name": GPU, "quantity": 1}},
                "executor": {"template": create_template(), "gpu": {"name": GPU, "quantity": 2}},
                "dynamicAllocation": {"enabled": True, "initialExecutors": 3, "minExecutors": 2},
            },
            {"spec.driver.template.spec.containers[0]": 1, "spec.executor.template.spec.containers[0]": 3},
            id="executors of Spark are those at the start",
        ),
        pytest.param(
            "SparkApplication.sparkoperator.k8s.io",
            {"executor": {"instances": 2}, "dynamicAllocation": {"enabled": False, "minExecutors": 5}},
            {"spec.executor.template.spec.containers[0]": 2},
            id="Spark starts its executors where nothing allocates them",
        ),
        pytest.param(
            "SparkApplication.sparkoperator.k8s.io",
            {"executor": {}, "dynamicAllocation": {"enabled": True, "maxExecutors": 5}},
            {"spec.executor.template.spec.containers[0]": 0},
            id="Spark allocates executors without a least number from none",
        ),
        pytest.param(
            "SparkConnect.sparkoperator.k8s.io",
            {"server": {}, "executor": {}},
            {"spec.server.template.spec.containers[0]": 1, "spec.executor.template.spec.containers[0]": 2},
            id="a server of Spark starts the executors that are the default of Spark",
        ),
        pytest.param(
            "Workload.kueue.x-k8s.io",
            {"podSets": [{"name": "leader", "count": 1, **WORKER}, {"name": "workers", "count": 7, **WORKER}]},
            {"spec.podSets[0].template.spec.containers[0]": 1, "spec.podSets[1].template.spec.containers[0]": 7},
            id="a Workload that is not admitted yet counts its pod sets",
        ),
        pytest.param(
            "Workflow.argoproj.io",
            {
                "templateDefaults": {"container": CONTAINER},
                "templates": [
                    {"container": CONTAINER},
                    {"steps": [[{"name": "a", "inline": {"script": CONTAINER}}], [{"template": "b"}]]},
                    {"dag": {"tasks": [{"name": "a", "inline": {"container": CONTAINER}}]}},
                    {"containerSet": {"containers": [CONTAINER]}},
                    {"resource": {"action": "create"}},
                ],
            },
            {
                "spec.templates[0].container": 1,
                "spec.templates[1].steps[0][0].inline.script": 1,
                "spec.templates[2].dag.tasks[0].inline.container": 1,
                "spec.templates[3].containerSet.containers[0]": 1,
                "spec.templateDefaults.container": None,
            },
            id="templates of a Workflow may be within its steps",
        ),
        pytest.param(
            "ClusterServingRuntime.serving.kserve.io",
            {**POD, "workerSpec": POD},
            {"spec.containers[0]": None, "spec.workerSpec.containers[0]": None},
            id="a runtime makes no pods",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap(WRAPPED_JOB),
            {"spec.components[0].template.spec.template.spec.containers[0]": 3},
            id="the pods of a wrapped object are those of the object",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap({"apiVersion": "v1", "kind": "Pod", "spec": POD}),
            {"spec.components[0].template.spec.containers[0]": 1},
            id="a wrapped pod is one pod",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap(WRAPPED_JOB, suspend=True),
            {"spec.components[0].template.spec.template.spec.containers[0]": 0},
            id="a suspended wrapper makes no pods",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap(
                {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"roles": [WORKER]}},
                [{"path": "template.spec.roles[0].template", "replicas": 4}, {"path": "template.spec.other"}],
            ),
            {"spec.components[0].template.spec.roles[0].template.spec.containers[0]": 4},
            id="the pods of a wrapped object of an unknown kind are declared",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap(
                {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"roles": [WORKER]}},
                [{"path": "template.spec.roles[0].template", "replicas": 4}],
                suspend=True,
            ),
            {"spec.components[0].template.spec.roles[0].template.spec.containers[0]": 0},
            id="a suspended wrapper makes none of the pods that are declared",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": wrap(WRAPPED_JOB)}),
            {},
            id="a wrapper in a wrapper is not read",
        ),
    ],
)
def test_pods_are_counted_as_the_controller_makes_them(
    name: str, spec: dict[str, Any], expected: dict[str, int | None]
) -> None:
    assert read_counts(name, spec) == expected


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        pytest.param([{"name": "workers", "count": 4}, {"name": "leader", "count": 1}], (1, 4), id="by name"),
        pytest.param([{"name": "workers", "count": 0}], (1, 0), id="none of a set that may have no pods (Kueue 0.20)"),
        pytest.param([{"name": "workers"}], (1, 7), id="without a count"),
        pytest.param([{"name": "others", "count": 4}], (1, 7), id="of another name"),
        pytest.param([], (1, 7), id="none"),
    ],
)
def test_an_admitted_workload_counts_the_pods_that_are_assigned(
    assignments: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    pod_sets = [{"name": "leader", "count": 1, **WORKER}, {"name": "workers", "count": 7, "minCount": 2, **WORKER}]
    body = {"spec": {"podSets": pod_sets}, "status": {"admission": {"podSetAssignments": assignments}}}
    target = REVIEW_TARGETS["kueue.x-k8s.io", "Workload"]
    views = target.list_pods(target.decode(json.dumps(body).encode()))
    assert tuple(view.replicas.count for view in views if view.replicas) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, (1, 0)),
        ({"min-scale": "3"}, (3, 0)),
        ({"initial-scale": "2", "max-scale": "7"}, (2, 7)),
        ({"initial-scale": "2", "min-scale": "4", "max-scale": "0"}, (4, 0)),
    ],
)
def test_a_knative_service_starts_with_its_initial_and_at_least_its_minimal_scale(
    annotations: dict[str, str], expected: tuple[int, int]
) -> None:
    written = {f"autoscaling.knative.dev/{name}": value for name, value in annotations.items()}
    spec = {"template": {"metadata": {"annotations": written}, **create_template()}}
    (view,) = read_views("Service.serving.knative.dev", spec)
    assert view.replicas is not None
    assert (view.replicas.count, view.replicas.most) == expected


def test_a_stopped_notebook_makes_no_pods() -> None:
    path = "spec.template.spec.containers[0]"
    stopped = {"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"}
    assert read_counts("Notebook.kubeflow.org", WORKER) == {path: 1}
    assert read_counts("Notebook.kubeflow.org", WORKER, stopped) == {path: 0}


@pytest.mark.parametrize(
    ("autoscaling", "maximum", "most"),
    [
        ({"enableInTreeAutoscaling": True}, 8, 16),
        ({"enableInTreeAutoscaling": False}, 8, 0),
        ({}, 8, 0),
        ({"enableInTreeAutoscaling": True}, LARGEST, 0),
    ],
    ids=["by the maximum", "not without an autoscaler", "not by default", "not by the default maximum of Ray"],
)
def test_an_autoscaler_of_ray_may_raise_the_workers(autoscaling: dict[str, bool], maximum: int, most: int) -> None:
    group = {"replicas": 2, "maxReplicas": maximum, "numOfHosts": 2, **WORKER}
    spec = {**autoscaling, "workerGroupSpecs": [group]}
    (view,) = read_views("RayCluster.ray.io", spec)
    assert view.replicas is not None
    assert (view.replicas.count, view.replicas.most) == (4, most)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param(None, (0, 0), id="no strategy"),
        pytest.param({"canary": {}}, (2, 0), id="a canary adds a quarter, rounded up"),
        pytest.param({"canary": {"maxSurge": 1, "maxUnavailable": 0}}, (1, 1), id="a canary that ends no pod first"),
        pytest.param({"canary": {"maxSurge": 0, "maxUnavailable": 0}}, (0, 0), id="a canary that may do nothing"),
        pytest.param({"canary": {"trafficRouting": {"nginx": {}}}}, (5, 5), id="a canary behind a router"),
        pytest.param(
            {"canary": {"trafficRouting": {"nginx": {}}, "dynamicStableScale": True}},
            (2, 0),
            id="a canary behind a router that follows the traffic",
        ),
        pytest.param({"blueGreen": {"activeService": "a"}}, (5, 5), id="a blue-green rollout doubles the pods"),
    ],
)
def test_a_rollout_adds_pods_by_its_strategy(strategy: dict[str, Any] | None, expected: tuple[int, int]) -> None:
    spec = {"replicas": 5, "template": create_template(), **({"strategy": strategy} if strategy else {})}
    (view,) = read_views("Rollout.argoproj.io", spec)
    replicas = view.replicas or ReplicaCount(-1)
    assert (replicas.count, replicas.surge, replicas.required_surge) == (5, *expected)


@pytest.mark.parametrize(
    ("strategy", "surge"),
    [
        pytest.param(None, 3, id="by default"),
        pytest.param({"type": "NewCluster"}, 3, id="by a new cluster"),
        pytest.param({"type": "None"}, 0, id="not without an upgrade"),
    ],
)
def test_an_upgrade_of_a_service_of_ray_runs_both_clusters(strategy: dict[str, Any] | None, surge: int) -> None:
    cluster = {"workerGroupSpecs": [{"replicas": 3, **WORKER}]}
    (view,) = read_views("RayService.ray.io", {"upgradeStrategy": strategy, "rayClusterConfig": cluster})
    replicas = view.replicas or ReplicaCount(-1)
    assert (replicas.count, replicas.surge, replicas.required_surge) == (3, surge, surge)


def evaluate(name: str, spec: dict[str, Any], phase: Phase) -> tuple[list[str], list[str]]:
    """Return the fields of the problems of an object, and the paths of its patch."""
    kind, _, group = name.partition(".")
    content = json.dumps({"spec": spec}).encode()
    request = AdmissionRequest(kind, "CREATE", content, None, group=group, namespace="team-a")
    verdict = evaluate_request(request, RuleIndex(parse([("policies.yaml", RULES)]).policies), {}, phase)
    return [problem.field for problem in verdict.problems], [str(each["path"]) for each in verdict.patch]


def test_a_problem_of_the_gpus_of_spark_is_at_their_quantity() -> None:
    spec = {"driver": {}, "executor": {"gpu": {"name": GPU, "quantity": 3}}}
    assert evaluate("SparkApplication.sparkoperator.k8s.io", spec, Phase.VALIDATING)[0] == [
        "spec.executor.gpu.quantity"
    ]
    assert evaluate("SparkApplication.sparkoperator.k8s.io", spec, Phase.MUTATING)[1] == []


@pytest.mark.parametrize(
    ("name", "spec", "problem", "patched"),
    [
        pytest.param(
            "Workflow.argoproj.io",
            {"templates": [{"sidecars": [CONTAINER]}]},
            f"spec.templates[0].sidecars[0].resources.limits[{GPU}]",
            "/spec/templates/0/sidecars/0/resources/requests",
            id="a sidecar of a Workflow",
        ),
        pytest.param(
            "InferenceService.serving.kserve.io",
            {"predictor": {"sklearn": CONTAINER}},
            f"spec.predictor.sklearn.resources.limits[{GPU}]",
            "",
            id="a model of KServe, which its runtime completes",
        ),
        pytest.param(
            "AppWrapper.workload.codeflare.dev",
            wrap(WRAPPED_JOB),
            f"spec.components[0].template.spec.template.spec.containers[0].resources.limits[{GPU}]",
            "/spec/components/0/template/spec/template/spec/containers/0/resources/requests",
            id="a wrapped Job",
        ),
    ],
)
def test_problems_and_patches_have_the_place_in_the_object(
    name: str, spec: dict[str, Any], problem: str, patched: str
) -> None:
    assert evaluate(name, spec, Phase.VALIDATING)[0] == [problem]
    filled = json.loads(json.dumps(spec).replace('"1"', '"2"'))
    assert evaluate(name, filled, Phase.MUTATING)[1] == ([patched] if patched else [])


@pytest.mark.parametrize(
    "spec",
    [
        {"components": [{"template": {"apiVersion": 1, "kind": "Job"}}]},
        {"components": [{"template": []}]},
        {"components": [{"template": {"kind": "Gang"}, "podSets": {}}]},
        {"components": [{"template": {"apiVersion": "batch/v1", "kind": "Job", "spec": []}}]},
    ],
    ids=["a version that is no text", "a list", "declarations that are no list", "a Job without fields"],
)
def test_a_wrapped_object_of_another_type_is_an_error(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_views("AppWrapper.workload.codeflare.dev", spec)


def test_every_known_kind_is_defined_once_with_its_source() -> None:
    keys = [(kind.group, kind.kind) for kind in KNOWN_KINDS]
    assert len(set(keys)) == len(keys)
    assert all(" v" in kind.source for kind in KNOWN_KINDS)


def test_the_reference_has_the_known_kinds() -> None:
    document = DOCUMENT.read_text()
    assert document == update_kinds(document), "run `python -m tests.admission.kinds_reference`"


def locate_amounts(name: str, spec: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the amounts of each list of requests or limits in the pods of an object, by its path."""
    return {
        f"{field.path}{list_name}": {resource: bytes(raw).decode() for resource, raw in entries.items()}
        for view in read_views(name, spec)
        for field in list_resource_fields(CustomWorkload(None, ()), view)
        for list_name, entries in field.lists
        if entries
    }


def test_a_step_has_the_resources_of_its_template_and_those_of_its_run() -> None:
    task = {
        "stepTemplate": {"computeResources": {"limits": {GPU: 1, "cpu": 1}}},
        "steps": [{"name": "a"}, {"name": "b", "computeResources": {"limits": {GPU: 2}}}, {"name": "c"}],
        "sidecars": [{"name": "a", "computeResources": {"limits": {GPU: 4}}}],
    }
    overrides = [{"name": "c", "computeResources": {"limits": {GPU: 8}}}]
    assert locate_amounts("TaskRun.tekton.dev", {"taskSpec": task, "stepSpecs": overrides}) == {
        "spec.taskSpec.stepTemplate.computeResources.limits": {GPU: "1", "cpu": "1"},
        "spec.taskSpec.steps[1].computeResources.limits": {GPU: "2", "cpu": "1"},
        "spec.stepSpecs[0].computeResources.limits": {GPU: "8", "cpu": "1"},
        "spec.taskSpec.sidecars[0].computeResources.limits": {GPU: "4"},
    }


def test_the_resources_of_a_run_replace_those_of_its_steps() -> None:
    run = {"taskSpec": TASK, "computeResources": {"limits": {GPU: 4}}, "podTemplate": {"nodeSelector": {"a": "b"}}}
    assert locate_amounts("TaskRun.tekton.dev", run) == {"spec.computeResources.limits": {GPU: "4"}}
    (view,) = read_views("TaskRun.tekton.dev", run)
    assert view.pod.spec is not None
    assert view.pod.spec.node_selector == {"a": "b"}


def test_a_task_of_v1beta1_has_its_resources_as_a_container_has() -> None:
    task = {"steps": [{"name": "a", "resources": {"limits": {GPU: 1}}}]}
    assert locate_amounts("Task.tekton.dev", task) == {"spec.steps[0].resources.limits": {GPU: "1"}}


def test_a_nim_service_has_its_devices_beside_its_resources() -> None:
    devices = [
        {"resourceClaimTemplateName": "gpus", "requests": ["a"]},
        {"resourceClaimName": "shared"},
        {"claimCreationSpec": {"devices": []}},
    ]
    spec = {"resources": {"limits": {GPU: 1}, "claims": [{"name": "ignored"}]}, "draResources": devices}
    (view,) = read_views("NIMService.apps.nvidia.com", spec)
    assert view.pod.spec is not None
    assert [(each.name, each.resource_claim_template_name) for each in view.pod.spec.resource_claims or ()] == [
        ("claim-0", "gpus"),
        ("claim-1", None),
    ]
    assert validate_pod(view.pod, template=True) == []
    assert locate_amounts("NIMService.apps.nvidia.com", spec) == {"spec.resources.limits": {GPU: "1"}}
