"""Objects that are not read: wrong kinds, and kinds of others that have containers, or request resources."""

import pytest

from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tallygate.manifests.unread_kinds import find_unread_pods, find_unread_texts, find_wrong_kind

TEMPLATE = "{spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 8}}}]}}"


def read_manifest(text: str) -> Manifest:
    """Return the object of a text."""
    (document,) = read_documents(text, DEFAULT_LIMITS)
    (manifest,) = list_objects("f", document)
    assert isinstance(manifest, Manifest)
    return manifest


@pytest.mark.parametrize(
    ("api_version", "kind", "advice"),
    [
        ("apps/v1", "deployment", "2:7 no API server has the kind deployment in apps/v1: write kind: Deployment"),
        ("v1", "POD", "2:7 no API server has the kind POD in v1: write kind: Pod"),
        ("Apps/v1", "Deployment", "1:13 no API server has the kind Deployment in Apps/v1: write apiVersion: apps/v1"),
        ("apps/V1", "Deployment", "1:13 no API server has the kind Deployment in apps/V1: write apiVersion: apps/v1"),
        ("V1", "Pod", "1:13 no API server has the kind Pod in V1: write apiVersion: v1"),
        ("v1", "Deployment", "1:13 no API server has the kind Deployment in v1: write apiVersion: apps/v1"),
        (
            "batch/v1beta1",
            "cronjob",
            "1:13 no API server has the kind cronjob in batch/v1beta1: write apiVersion: batch/v1 and kind: CronJob",
        ),
        (
            "extensions/v1beta1",
            "DaemonSet",
            "1:13 no API server has the kind DaemonSet in extensions/v1beta1: write apiVersion: apps/v1",
        ),
        ("apps/v1", "Deployment", ""),
        ("batch.volcano.sh/v1alpha1", "Job", ""),
        (
            "jobset.x-k8s.io/v1alpha2",
            "Jobset",
            "2:7 no API server has the kind Jobset in jobset.x-k8s.io/v1alpha2: write kind: JobSet",
        ),
        ("v1", "service", ""),
    ],
)
def test_a_kind_that_differs_by_case_or_version_is_an_error(api_version: str, kind: str, advice: str) -> None:
    error = find_wrong_kind(read_manifest(f"apiVersion: {api_version}\nkind: {kind}\n"), REVIEW_TARGETS)
    found = f"{error.position.line}:{error.position.column} {error.message}" if error else ""
    assert (found, error is None or error.code == "TG411") == (advice, True)


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "path"),
    [
        pytest.param(
            "kubeflow.org/v1",
            "PyTorchJob",
            f"pytorchReplicaSpecs: {{Master: {{template: {TEMPLATE}}}}}",
            "spec.pytorchReplicaSpecs.Master.template.spec.containers",
            id="a PyTorchJob",
        ),
        pytest.param(
            "ray.io/v1",
            "RayCluster",
            f"workerGroupSpecs: [{{replicas: 2, template: {TEMPLATE}}}]",
            "spec.workerGroupSpecs[0].template.spec.containers",
            id="a RayCluster",
        ),
        pytest.param(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            f"replicatedJobs: [{{template: {{spec: {{template: {TEMPLATE}}}}}}}]",
            "spec.replicatedJobs[0].template.spec.template.spec.containers",
            id="a JobSet",
        ),
        pytest.param(
            "argoproj.io/v1alpha1",
            "Rollout",
            f"template: {TEMPLATE}",
            "spec.template.spec.containers",
            id="a Rollout",
        ),
        pytest.param(
            "argoproj.io/v1alpha1",
            "Workflow",
            "templates: [{name: a, container: {image: a}}]",
            "spec.templates[0].container",
            id="a workflow with one container",
        ),
        pytest.param(
            "monitoring.coreos.com/v1", "Prometheus", "containers: [{name: a}]", "spec.containers", id="no template"
        ),
        pytest.param("v1", "Service", "ports: [{port: 80}]", "", id="a kind without containers"),
        pytest.param(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "versions: [{schema: {openAPIV3Schema: {properties: {containers: {type: array}}}}}]",
            "",
            id="the schema of a kind",
        ),
        pytest.param(
            "kyverno.io/v1",
            "ClusterPolicy",
            'rules: [{validate: {pattern: {spec: {containers: [{name: "*"}]}}}}]',
            "",
            id="a pattern of pods",
        ),
        pytest.param("x.org/v1", "Shop", "containers: [ship, truck]", "", id="containers of another sort"),
        pytest.param("x.org/v1", "Shop", "containers: []", "", id="no containers"),
        pytest.param(
            "apps.nvidia.com/v1alpha1",
            "NIMPipeline",
            "services: [{spec: {image: {tag: '1'}, resources: {limits: {nvidia.com/gpu: 1500m}}}}]",
            "spec.services[0].spec.resources",
            id="resources beside an image that is a mapping",
        ),
        pytest.param(
            "ome.io/v1beta1",
            "InferenceService",
            "engine: {runner: {image: x, resources: {}}}",
            "spec.engine.runner.resources",
            id="a container whose resources are empty",
        ),
        pytest.param(
            "x.org/v1",
            "Step",
            "steps: [{computeResources: {limits: {nvidia.com/gpu: 1}}}]",
            "spec.steps[0].computeResources.limits",
            id="limits below a field of any name",
        ),
        pytest.param(
            "postgresql.cnpg.io/v1",
            "Cluster",
            "imageName: x, resources: {requests: {memory: 1Gi}}",
            "spec.resources.requests",
            id="requests without an image",
        ),
        pytest.param(
            "kubevirt.io/v1",
            "VirtualMachine",
            "template: {spec: {domain: {resources: {limits: {nvidia.com/gpu: 1500m}}}}}",
            "spec.template.spec.domain.resources.limits",
            id="a virtual machine",
        ),
        pytest.param(
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            "values: {resources: {limits: {nvidia.com/gpu: '${gpus}'}}}",
            "spec.values.resources.limits",
            id="an extended resource whose amount is a parameter",
        ),
        pytest.param(
            "v1",
            "PersistentVolumeClaim",
            "resources: {requests: {storage: 10Gi}, limits: {storage: 20Gi}}",
            "",
            id="a claim for a volume",
        ),
        pytest.param(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "versions: [{schema: {openAPIV3Schema: {properties: {image: {type: string}, resources: {type: object}, "
            "limits: {maxProperties: 2}}}}}]",
            "",
            id="the schema of a kind with resources",
        ),
        pytest.param("karpenter.sh/v1", "NodePool", "limits: {nvidia.com/gpu: 8}", "", id="the limits of nodes"),
        pytest.param(
            "kyverno.io/v1",
            "ClusterPolicy",
            "rules: [{validate: {pattern: {spec: {resources: {limits: {memory: 1Gi}}}}}}]",
            "",
            id="a pattern of limits",
        ),
        pytest.param(
            "x.org/v1", "Shop", "limits: {open: true, name: many, rest: {a: 1}}", "", id="limits of no amount"
        ),
        pytest.param("x.org/v1", "Shop", "image: x, resources: [a.yaml]", "", id="a list of resources"),
    ],
)
def test_an_object_with_pods_of_a_kind_that_is_not_read_is_found(
    api_version: str, kind: str, spec: str, path: str
) -> None:
    warning = find_unread_pods(
        read_manifest(f"apiVersion: {api_version}\nkind: {kind}\nspec: {{{spec}}}\n"), BUILT_IN_TARGETS
    )
    message = f"the kind {kind} of {api_version} is not read: its pods ({path}) are not checked"
    advice = "a WorkloadKind can define the kind"
    assert (warning.message if warning else "") == (f"{message}; {advice}" if path else "")
    assert warning is None or (warning.code, *warning.position) == ("TG410", 2, 7)


def test_an_object_whose_pods_have_a_template_in_another_object_is_found() -> None:
    text = "apiVersion: extensions.agents.x-k8s.io/v1beta1\nkind: SandboxWarmPool\nspec: {replicas: 8}\n"
    warning = find_unread_pods(read_manifest(text), REVIEW_TARGETS)
    assert warning is not None
    assert (warning.code, *warning.position) == ("TG410", 2, 7)
    assert "the template that spec.sandboxTemplateRef names, are not counted" in warning.message


@pytest.mark.parametrize(
    ("template", "count"),
    [
        ("resource: {action: create, manifest: 'kind: Job\n\nspec: {}\n\nlimits: {a.b/c: 1}'}", 1),
        ('resource: {action: create, manifest: "kind: Pod\\nspec:\\n  containers:\\n  - {}"}', 1),
        ('resource: {action: create, manifest: "kind: ConfigMap\\ndata: {}"}', 0),
        ("resource: {action: create, manifestFrom: {artifact: {name: a}}}", 0),
        ("container: {image: x}", 0),
    ],
)
def test_an_object_with_pods_in_a_text_of_a_workflow_is_found(template: str, count: int) -> None:
    text = f"apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - {{name: a, {template}}}\n"
    warnings = list(find_unread_texts(read_manifest(text)))
    assert [each.code for each in warnings] == ["TG410"] * count
    assert all("spec.templates[0].resource.manifest has an object with pods" in each.message for each in warnings)


def test_aliases_of_aliases_are_searched_once() -> None:
    levels = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    text = f"apiVersion: x.org/v1\nkind: Bomb\nspec:\n  l0: &l0 [{{name: a}}]\n{levels}  x: *l9\n"
    assert find_unread_pods(read_manifest(text), REVIEW_TARGETS) is None
