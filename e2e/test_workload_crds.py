"""The known kinds by their projects' own definitions: a fraction is refused in each, and documented examples pass."""

import copy
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.api import Answer, Object, api
from e2e.command_output import run_tallygate
from e2e.errors import BuildError
from e2e.namespaces import new_namespace
from e2e.ports import Cluster, Gate, NotHereError
from e2e.registering import CONFIGURATIONS
from e2e.waiting import until
from e2e.workload_kinds.examples import list_files, read_objects
from e2e.workload_kinds.modules import read_definitions
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.admission.workload_resources import select_resources
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import WorkloadKind
from tests.admission.plain_configurations import create_plain_configurations

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WITHIN = 480.0  # seconds: an API server that is busy needs minutes for sixty definitions
_GPU = "nvidia.com/gpu"
_KINDS = {(kind.group, kind.kind): kind for kind in KNOWN_KINDS}
_CONTAINER = "spec.containers[0].resources"
_JOB = f"template.spec.template.{_CONTAINER}"
_RAY_WORKERS = f"workerGroupSpecs[0].template.{_CONTAINER}"

_NOT_READ = dict.fromkeys(("DynamoGraphDeployment", "DynamoComponentDeployment"), ("v1alpha1",))
"""The versions that are served and not read, since their fields move: the API server converts them for a gate."""

_PLACES: dict[tuple[str, str], str] = {
    ("a Job of a JobSet", "JobSet"): f"spec.replicatedJobs[1].{_JOB}",
    ("the workers of a LeaderWorkerSet", "LeaderWorkerSet"): f"spec.leaderWorkerTemplate.workerTemplate.{_CONTAINER}",
    ("the workers of a PyTorchJob", "PyTorchJob"): f"spec.pytorchReplicaSpecs.Worker.template.{_CONTAINER}",
    ("the workers of a TFJob", "TFJob"): f"spec.tfReplicaSpecs.Worker.template.{_CONTAINER}",
    ("the workers of an XGBoostJob", "XGBoostJob"): f"spec.xgbReplicaSpecs.Worker.template.{_CONTAINER}",
    ("the workers of a PaddleJob", "PaddleJob"): f"spec.paddleReplicaSpecs.Worker.template.{_CONTAINER}",
    ("the workers of a JAXJob", "JAXJob"): f"spec.jaxReplicaSpecs.Worker.template.{_CONTAINER}",
    ("the launcher of an MPIJob", "MPIJob"): f"spec.mpiReplicaSpecs.Launcher.template.{_CONTAINER}",
    ("the nodes of a TrainJob", "TrainJob"): "spec.trainer.resourcesPerNode",
    ("a runtime", "TrainingRuntime"): f"spec.template.spec.replicatedJobs[0].{_JOB}",
    ("a runtime of all namespaces", "ClusterTrainingRuntime"): f"spec.template.spec.replicatedJobs[0].{_JOB}",
    ("a task of Volcano", "Job"): f"spec.tasks[0].template.{_CONTAINER}",
    ("a repeated task of Volcano", "CronJob"): f"spec.jobTemplate.spec.tasks[0].template.{_CONTAINER}",
    ("a template of a flow", "JobTemplate"): f"spec.tasks[0].template.{_CONTAINER}",
    ("a pod set of Kueue", "Workload"): f"spec.podSets[0].template.{_CONTAINER}",
    ("a wrapped pod", "AppWrapper"): f"spec.components[0].template.{_CONTAINER}",
    ("the head of a RayCluster", "RayCluster"): f"spec.headGroupSpec.template.{_CONTAINER}",
    ("the workers of a RayJob", "RayJob"): f"spec.rayClusterSpec.{_RAY_WORKERS}",
    ("the workers of a RayCronJob", "RayCronJob"): f"spec.jobTemplate.rayClusterSpec.{_RAY_WORKERS}",
    ("the workers of a RayService", "RayService"): f"spec.rayClusterConfig.{_RAY_WORKERS}",
    ("a Rollout", "Rollout"): f"spec.template.{_CONTAINER}",
    ("an Experiment", "Experiment"): f"spec.templates[0].template.{_CONTAINER}",
    ("a measurement by a Job", "AnalysisRun"): f"spec.metrics[0].provider.job.spec.template.{_CONTAINER}",
    ("a container of a Workflow", "Workflow"): "spec.templates[1].container.resources",
    ("a sidecar of a Workflow", "Workflow"): "spec.templates[1].sidecars[0].resources",
    ("the script of a WorkflowTemplate", "WorkflowTemplate"): "spec.templates[0].script.resources",
    ("a template of a CronWorkflow", "CronWorkflow"): "spec.workflowSpec.templates[0].container.resources",
    ("a Notebook", "Notebook"): f"spec.template.{_CONTAINER}",
    ("a model of an InferenceService", "InferenceService"): "spec.predictor.model.resources",
    ("a container of an InferenceService", "InferenceService"): "spec.transformer.containers[0].resources",
    ("the workers of an InferenceService", "InferenceService"): "spec.predictor.workerSpec.containers[0].resources",
    ("a language model", "LLMInferenceService"): "spec.template.containers[0].resources",
    ("the prefill of a language model", "LLMInferenceService"): "spec.prefill.template.containers[0].resources",
    ("a configuration of models", "LLMInferenceServiceConfig"): "spec.template.containers[0].resources",
    ("a serving runtime", "ServingRuntime"): "spec.containers[0].resources",
    ("a serving runtime of all namespaces", "ClusterServingRuntime"): "spec.containers[0].resources",
    ("the driver of Spark", "SparkApplication"): f"spec.driver.template.{_CONTAINER}",
    ("repeated executors of Spark", "ScheduledSparkApplication"): f"spec.template.executor.template.{_CONTAINER}",
    ("the server of Spark", "SparkConnect"): f"spec.server.template.{_CONTAINER}",
    ("a Knative Service", "Service"): f"spec.template.{_CONTAINER}",
    ("a Knative Configuration", "Configuration"): f"spec.template.{_CONTAINER}",
    ("a Knative Revision", "Revision"): _CONTAINER,
    ("a sandbox", "Sandbox"): f"spec.podTemplate.{_CONTAINER}",
    ("a template of sandboxes", "SandboxTemplate"): f"spec.podTemplate.{_CONTAINER}",
    ("the group of a role", "RoleBasedGroup"): f"spec.roles[1].leaderWorkerPattern.template.{_CONTAINER}",
    ("a role of a StormService", "StormService"): f"spec.template.spec.roles[0].template.{_CONTAINER}",
    ("the workers of a RayClusterFleet", "RayClusterFleet"): f"spec.template.spec.{_RAY_WORKERS}",
    ("a role of a DisaggregatedSet", "DisaggregatedSet"): (
        f"spec.roles[0].spec.leaderWorkerTemplate.workerTemplate.{_CONTAINER}"
    ),
    ("a CloneSet", "CloneSet"): f"spec.template.{_CONTAINER}",
    ("a StatefulSet of OpenKruise", "StatefulSet"): f"spec.template.{_CONTAINER}",
    ("a DaemonSet of OpenKruise", "DaemonSet"): f"spec.template.{_CONTAINER}",
    ("a BroadcastJob", "BroadcastJob"): f"spec.template.{_CONTAINER}",
    ("a NIMService", "NIMService"): "spec.resources",
    ("a component of a graph", "DynamoGraphDeployment"): f"spec.components[0].podTemplate.{_CONTAINER}",
    ("a component of Dynamo", "DynamoComponentDeployment"): f"spec.podTemplate.{_CONTAINER}",
    ("a step of a TaskRun", "TaskRun"): "spec.taskSpec.steps[0].computeResources",
    ("a step of a Task", "Task"): "spec.steps[0].computeResources",
    ("a step of a PipelineRun", "PipelineRun"): "spec.pipelineSpec.tasks[0].taskSpec.steps[0].computeResources",
    ("a step of a Pipeline", "Pipeline"): "spec.tasks[0].taskSpec.steps[0].computeResources",
}
"""Where a fraction is put, by a description of the place and the kind."""


class Example(NamedTuple):
    """An example: the object as it is in its file."""

    file: Path
    content: Object

    @property
    def key(self) -> tuple[str, str]:
        """The group and kind."""
        return self.content["apiVersion"].rpartition("/")[0], self.content["kind"]

    @property
    def name(self) -> str:
        """A name for reports."""
        metadata = self.content["metadata"]
        return f"{self.content['kind']} {metadata.get('name') or metadata.get('generateName')} of {self.file.name}"


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Return the documented examples of the known kinds."""
    try:
        files = list_files()
    except BuildError as error:
        raise NotHereError(str(error)) from None
    found = [Example(file, each) for file in files for each in read_objects(file)]
    return [each for each in found if each.key in _KINDS]


@pytest.fixture(scope="module")
def crds(cluster: Cluster, gate: Gate) -> Iterator[Cluster]:
    """Define all known kinds by their projects' own definitions, and register the gate for them."""
    try:
        definitions = read_definitions()
    except BuildError as error:
        raise NotHereError(str(error)) from None
    ours = api(cluster.kubeconfig)
    paths = [f"{_DEFINITIONS}/{each['metadata']['name']}" for each in definitions]
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(partial(ours.create, _DEFINITIONS), definitions))
        until("all kinds are served", lambda: all(_is_served(ours.get(path)) for path in paths), _WITHIN)
        _register(cluster)
        until("the gate is called", partial(_refuses_job_set, cluster), _WITHIN, gate.log)
        yield cluster
    finally:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(ours.delete, paths))
        until("no kind is served", lambda: not any(ours.ask("GET", path).is_done for path in paths), _WITHIN)


class Serving(NamedTuple):
    """A cluster that serves all known kinds, a namespace in it for the objects of all cases, and the examples."""

    cluster: Cluster
    namespace: str
    examples: list[Example]


@pytest.fixture(scope="module")
def serving(crds: Cluster, examples: list[Example]) -> Iterator[Serving]:
    """Make a namespace for the objects of all cases."""
    with new_namespace(crds) as name:
        yield Serving(crds, name, examples)


def _is_served(definition: Object) -> bool:
    conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"] or ()}
    return conditions.get("Established") == "True"


def _register(cluster: Cluster) -> None:
    """Add the webhook of the known kinds to both configurations."""
    served = {(kind.group, kind.versions[0], kind.resource): kind.is_namespaced for kind in KNOWN_KINDS}
    created = create_plain_configurations(ServiceTarget(), workload_resources=select_resources(KNOWN_KINDS, served))
    for configuration in created:
        path = CONFIGURATIONS[configuration["kind"]]
        stored = api(cluster.kubeconfig).get(path)
        (webhook,) = (each for each in configuration["webhooks"] if each["name"].startswith("workloads."))
        webhook["clientConfig"] = stored["webhooks"][0]["clientConfig"]
        others = [each for each in stored["webhooks"] if each["name"] != webhook["name"]]
        api(cluster.kubeconfig).patch(path, {"webhooks": [*others, webhook]})


def _refuses_job_set(cluster: Cluster) -> bool:
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe"},
        "spec": {"replicatedJobs": [{"name": "a", "template": {}}]},
    }
    _put(body, f"spec.replicatedJobs[0].{_JOB}", {"limits": {_GPU: "500m"}})
    return "tallygate" in _create(cluster, "default", body).rejection


def _create(cluster: Cluster, namespace: str, body: Object, *, is_dry: bool = True) -> Answer:
    ours = api(cluster.kubeconfig)
    definition = _find_kind(body)
    place = f"namespaces/{namespace}/" if definition.is_namespaced else ""
    query = {"fieldValidation": "Ignore", **({"dryRun": "All"} if is_dry else {})}
    return ours.ask(
        "POST", f"/apis/{body['apiVersion']}/{place}{definition.resource}", _place_in(body, namespace), query=query
    )


def _find_kind(body: Object) -> WorkloadKind:
    return _KINDS[body["apiVersion"].rpartition("/")[0], body["kind"]]


def _place_in(body: Object, namespace: str) -> Object:
    """Return an object in a namespace, without the one of its file."""
    definition = _find_kind(body)
    metadata = {name: each for name, each in body["metadata"].items() if name != "namespace"}
    if definition.is_namespaced:
        metadata["namespace"] = namespace
    return body | {"metadata": metadata}


def _put(body: Any, path: str, value: object) -> None:
    """Put a value at a path; what is missing on the way is made."""
    steps = [int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]
    place = body
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        made: object = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, int):
            place.extend({"name": f"main-{index}", "image": "none"} for index in range(len(place), step + 1))
        elif step not in place or following is None:
            place[step] = made
        if following is None:
            place[step] = value
        place = place[step]


def _find_example(examples: list[Example], kind: str) -> Example:
    """Return the first example of a kind."""
    return next(each for each in examples if each.content["kind"] == kind)


def test_every_known_kind_is_defined_as_it_is_known(crds: Cluster) -> None:
    ours = api(crds.kubeconfig)
    for kind in KNOWN_KINDS:
        spec = ours.get(f"{_DEFINITIONS}/{kind.resource}.{kind.group}")["spec"]
        served = [each["name"] for each in spec["versions"] if each["served"]]
        assert (spec["names"]["kind"], spec["scope"]) == (kind.kind, "Namespaced" if kind.is_namespaced else "Cluster")
        # v1 of an MPIJob is defined by the training operator, whose definition has the same name
        read = {*kind.versions, *_NOT_READ.get(kind.kind, ())}
        assert set(kind.versions) - {"v1"} <= set(served) <= read, f"{kind.kind}: {served}"


def test_there_are_two_examples_of_every_known_kind_and_a_fraction_in_each(examples: list[Example]) -> None:
    keys = [each.key for each in examples]
    assert [key for key in _KINDS if keys.count(key) < 2] == []
    without = {
        "AnalysisTemplate",
        "ClusterAnalysisTemplate",
        "ClusterWorkflowTemplate",
    }  # as AnalysisRun, WorkflowTemplate
    assert {kind for _, kind in _KINDS} - {kind for _, kind in _PLACES} == without


@pytest.fixture(scope="module")
def findings(crds: Cluster, examples: list[Example], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return what `tallygate check` finds in the object of each place, by the description of the place."""
    folder = tmp_path_factory.mktemp("fractions")
    for (description, kind), place in _PLACES.items():
        body = _with_fraction(examples, kind, place)
        (folder / f"{description}.json").write_text(json.dumps(body))
    done = run_tallygate(crds, "check", str(folder), "--output=json")
    assert done.returncode == 1, done.stderr
    found: dict[str, list[Any]] = {}
    for each in json.loads(done.stdout)["findings"]:
        if "rule" in each["by"]:  # the API server would reject the pods, and stores the object
            found.setdefault(Path(each["file"]).stem, []).append(each)
    return found


def _with_fraction(examples: list[Example], kind: str, place: str) -> Object:
    body = copy.deepcopy(_find_example(examples, kind).content)
    _put(body, place, {"limits": {_GPU: "500m"}})
    return body


@pytest.mark.parametrize(("description", "kind"), _PLACES)
def test_a_fraction_is_refused_and_check_says_the_same_of(
    description: str, kind: str, serving: Serving, findings: dict[str, list[Any]]
) -> None:
    place = _PLACES[description, kind]
    answer = _create(serving.cluster, serving.namespace, _with_fraction(serving.examples, kind, place))
    assert not answer.is_done
    causes = json.loads(answer.body)["details"]["causes"]
    assert f"{place}.limits[{_GPU}]" in [each["field"] for each in causes]
    assert {each["reason"] for each in causes} == {"FieldValueInvalid"}
    answered = {(each["field"], each["message"].partition(", rule whole-units")[0]) for each in causes}
    assert answered == {(each["field"], f"{each['message']} ({each['code']}") for each in findings[description]}
    assert f", rule whole-units: {findings[description][0]['why']})" in causes[0]["message"], "the first has the reason"


def test_documented_examples_are_stored_and_applied_and_changed_without_a_warning(
    serving: Serving,
) -> None:
    ours = api(serving.cluster.kubeconfig)
    for example in serving.examples:
        answer = _create(serving.cluster, serving.namespace, example.content, is_dry=False)
        assert answer.is_done, f"{example.name}: {answer.messages}"
        assert [each for each in answer.warnings if "TG" in each] == [], example.name
        stored = answer.object()
        path = _get_path(stored)
        applied = {name: stored[name] for name in ("apiVersion", "kind", "spec")}
        applied["metadata"] = {"name": stored["metadata"]["name"], "labels": {"applied": "yes"}}
        assert ours.apply(path, applied)["metadata"]["labels"]["applied"] == "yes", example.name
        assert ours.patch(path, {"metadata": {"labels": {"changed": "yes"}}})["metadata"]["labels"]["changed"] == "yes"
        ours.delete(path)


def test_documented_examples_have_no_findings(crds: Cluster, examples: list[Example], tmp_path: Path) -> None:
    for index, example in enumerate(examples):
        (tmp_path / f"{index}.json").write_text(json.dumps(example.content))
    done = run_tallygate(crds, "check", str(tmp_path), "--output=json")
    found = [each for each in json.loads(done.stdout)["findings"] if each["level"] != "note"]
    assert found == []
    assert done.returncode == 0


def _get_path(stored: Object) -> str:
    definition = _find_kind(stored)
    metadata = stored["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if definition.is_namespaced else ""
    return f"/apis/{stored['apiVersion']}/{place}{definition.resource}/{metadata['name']}"


_OLDER = [
    pytest.param(kind, version, id=f"{kind.kind} {version}")
    for kind in KNOWN_KINDS
    for version in kind.versions[1:]
    if version != "v1"  # of an MPIJob, by the other operator
]


@pytest.mark.parametrize(("kind", "version"), _OLDER)
def test_an_object_in_an_older_version_is_converted_and_refused(
    kind: WorkloadKind, version: str, serving: Serving
) -> None:
    place = next(each for (_, name), each in _PLACES.items() if name == kind.kind)
    body = _with_fraction(serving.examples, kind.kind, place) | {"apiVersion": f"{kind.group}/{version}"}
    assert f"{place}.limits[{_GPU}]" in _create(serving.cluster, serving.namespace, body).rejection
