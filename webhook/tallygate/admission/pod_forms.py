"""The forms of pods in objects of other projects: each is composed to the JSON of a pod template.

The places of a composed template are the paths in the object of those fields of the template that are elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tallygate.admission.pod_view import Completeness
from tallygate.admission.workflow_templates import PlacedSpec, compose_workflow_template
from tallygate.policy.workload_kinds import PodForm

_NULL = b"null"
_RAW_NULL = msgspec.Raw(_NULL)
_MODEL_FIELDS = (
    "model",
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
    "art",
)
"""The fields of a component of KServe that are a container (pkg/apis/serving/v1beta1/predictor.go, explainer.go)."""


@dataclass(frozen=True, slots=True)
class ComposedTemplate:
    """The JSON of a pod template, and the paths of its fields in the object.

    `places` are those of the fields that are not below the path of the template, `amounts` those of the fields that
    state one amount without its name. `completeness` tells whether it is the whole template.
    """

    content: msgspec.Raw
    places: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, str] = field(default_factory=dict)
    completeness: Completeness = Completeness.WHOLE


def compose_template(
    form: PodForm, content: msgspec.Raw, path: str, workflow: PlacedSpec | None = None
) -> ComposedTemplate:
    """Return the pod template in the value at a path; `workflow` is the spec of the Workflow of a template.

    Raises:
        ValueError: if a field has another type.
    """
    match form:
        case PodForm.SPEC:
            return ComposedTemplate(msgspec.Raw(b'{"spec":' + bytes(content) + b"}"), {"spec": path})
        case PodForm.RESOURCES:
            body = b'{"spec":{"containers":[{"name":"","resources":' + bytes(content) + b"}]}}"
            places = {"spec.containers[0].resources": path}
            return ComposedTemplate(msgspec.Raw(body), places, completeness=Completeness.PARTIAL)
        case PodForm.WORKFLOW:
            composed, places, completeness = compose_workflow_template(content, path, workflow or PlacedSpec())
            return ComposedTemplate(_encode(composed), places, completeness=completeness)
        case PodForm.COMPONENT:
            return _compose_component(content, path)
        case PodForm.SPARK_POD:
            return _compose_spark_pod(content, path)
        case PodForm.NIM_SERVICE:
            return _compose_nim_service(content, path)
        case PodForm.TASK:
            return _compose_task(content, path)
        case PodForm.TASK_RUN:
            return _compose_task_run(content, path)
        case _:
            return ComposedTemplate(content)


_MAPPING_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CONTAINERS_DECODER = msgspec.json.Decoder(list[msgspec.Raw] | None)


def _compose_component(content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the template of a component of KServe: its containers, and those of its model.

    A model is merged with the container of a ServingRuntime (pkg/controller/v1beta1/inferenceservice/components).
    """
    spec = _MAPPING_DECODER.decode(content)
    containers = _CONTAINERS_DECODER.decode(spec.get("containers", _RAW_NULL)) or ()
    written = [
        *((f"{path}.{name}", spec[name]) for name in _MODEL_FIELDS if bytes(spec.get(name, _RAW_NULL)) != _NULL),
        *((f"{path}.containers[{index}]", container) for index, container in enumerate(containers)),
    ]
    metadata = {name: spec[name] for name in ("labels", "annotations") if name in spec}
    template = {"metadata": metadata, "spec": {**spec, "containers": [field_value for _, field_value in written]}}
    is_partial = len(written) > len(containers)
    return ComposedTemplate(
        _encode(template),
        {**_list_places(written), "spec": path, "metadata": path},
        completeness=Completeness.PARTIAL if is_partial else Completeness.WHOLE,
    )


class _Gpu(msgspec.Struct):
    name: str = ""
    quantity: int = 0


class _PodTemplate(msgspec.Struct):
    metadata: msgspec.Raw = _RAW_NULL
    spec: dict[str, msgspec.Raw] | None = None


class _SparkPod(msgspec.Struct):
    """The driver or the executors of a SparkApplication (api/v1beta2/sparkapplication_types.go, SparkPodSpec)."""

    template: _PodTemplate | None = None
    gpu: _Gpu | None = None


_SPARK_POD_DECODER = msgspec.json.Decoder(_SparkPod)


def _compose_spark_pod(content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the template of a Spark pod, with one more container that requests its GPUs.

    The operator writes the GPUs to the limits of the container of Spark (internal/webhook/sparkpod_defaulter.go).
    """
    pod = _SPARK_POD_DECODER.decode(content)
    template = pod.template or _PodTemplate()
    spec = template.spec or {}
    containers = list(_CONTAINERS_DECODER.decode(spec.get("containers", _RAW_NULL)) or ())
    amounts: dict[str, str] = {}
    if pod.gpu is not None and pod.gpu.name and pod.gpu.quantity > 0:
        quantities = {pod.gpu.name: str(pod.gpu.quantity)}
        amounts = {f"{path}.gpu.{side}[{pod.gpu.name}]": f"{path}.gpu.quantity" for side in ("requests", "limits")}
        containers.append(_encode({"name": "", "resources": {"requests": quantities, "limits": quantities}}))
    places = {"metadata": f"{path}.template.metadata", "spec": f"{path}.template.spec"}
    if amounts:
        places[f"spec.containers[{len(containers) - 1}].resources"] = f"{path}.gpu"
    composed = {"metadata": template.metadata, "spec": {**spec, "containers": containers}}
    return ComposedTemplate(_encode(composed), places, amounts)


class _DeviceClaim(msgspec.Struct, rename="camel"):
    """A claim of a NIMService (api/apps/v1alpha1/dra_types.go, DRAResource)."""

    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None
    requests: list[str] | None = None


class _NimService(msgspec.Struct, rename="camel"):
    """The spec of a NIMService (api/apps/v1alpha1/nimservice_types.go): the operator reads no claims in its resources.

    A claim that the operator creates itself has no name here.
    """

    labels: msgspec.Raw = _RAW_NULL
    annotations: msgspec.Raw = _RAW_NULL
    resources: msgspec.Raw = _RAW_NULL
    dra_resources: list[_DeviceClaim] | None = None
    node_selector: msgspec.Raw = _RAW_NULL
    affinity: msgspec.Raw = _RAW_NULL
    tolerations: msgspec.Raw = _RAW_NULL
    priority_class_name: msgspec.Raw = _RAW_NULL
    runtime_class_name: msgspec.Raw = _RAW_NULL
    scheduler_name: msgspec.Raw = _RAW_NULL


class _Amounts(msgspec.Struct, omit_defaults=True):
    """The requests and limits of resources, and the claims that a composed container refers to."""

    requests: dict[str, msgspec.Raw] | None = None
    limits: dict[str, msgspec.Raw] | None = None
    claims: list[dict[str, str]] | None = None


_NIM_SERVICE_DECODER = msgspec.json.Decoder(_NimService)
_AMOUNTS_DECODER = msgspec.json.Decoder(_Amounts | None)


def _compose_nim_service(content: msgspec.Raw, path: str) -> ComposedTemplate:
    service = _NIM_SERVICE_DECODER.decode(content)
    claims: list[dict[str, str]] = []
    references: list[dict[str, str]] = []
    for index, resource in enumerate(service.dra_resources or ()):
        name = f"claim-{index}"
        if resource.resource_claim_name:
            claims.append({"name": name, "resourceClaimName": resource.resource_claim_name})
        elif resource.resource_claim_template_name:
            claims.append({"name": name, "resourceClaimTemplateName": resource.resource_claim_template_name})
        else:
            continue
        references += [{"name": name, "request": request} for request in resource.requests or ()] or [{"name": name}]
    written = _AMOUNTS_DECODER.decode(service.resources) or _Amounts()
    spec = {
        "containers": [{"name": "", "resources": _Amounts(written.requests, written.limits, references or None)}],
        "resourceClaims": claims,
        "nodeSelector": service.node_selector,
        "affinity": service.affinity,
        "tolerations": service.tolerations,
        "priorityClassName": service.priority_class_name,
        "runtimeClassName": service.runtime_class_name,
        "schedulerName": service.scheduler_name,
    }
    places = {
        "spec.containers[0].resources.claims": f"{path}.draResources",
        "spec.containers[0].resources": f"{path}.resources",
        "spec.resourceClaims": f"{path}.draResources",
        "metadata": path,
        "spec": path,
    }
    metadata = {"labels": service.labels, "annotations": service.annotations}
    return ComposedTemplate(_encode({"metadata": metadata, "spec": spec}), places)


class _Step(msgspec.Struct, rename="camel"):
    """A step or sidecar of a task; v1beta1 names its resources as a container does, and computeResources is v1."""

    name: str = ""
    compute_resources: msgspec.Raw = _RAW_NULL
    resources: msgspec.Raw = _RAW_NULL

    def find_resources(self) -> tuple[str, msgspec.Raw]:
        if bytes(self.compute_resources) != _NULL:
            return "computeResources", self.compute_resources
        return "resources", self.resources


class _Task(msgspec.Struct, rename="camel"):
    """A task of Tekton (pkg/apis/pipeline/v1/task_types.go, TaskSpec)."""

    steps: list[_Step] | None = None
    sidecars: list[_Step] | None = None
    step_template: _Step | None = None


_POD_SETTINGS = ("nodeSelector", "affinity", "tolerations", "priorityClassName", "runtimeClassName", "schedulerName")
"""The settings that a TaskRun has for its pod, with the names of a pod (pkg/apis/pipeline/pod/template.go)."""


class _TaskRun(msgspec.Struct, rename="camel"):
    """A run of a task (pkg/apis/pipeline/v1/taskrun_types.go, TaskRunSpec); v1beta1 names its overrides so."""

    task_spec: msgspec.Raw = _RAW_NULL
    pod_template: dict[str, msgspec.Raw] | None = None
    step_specs: list[_Step] | None = None
    sidecar_specs: list[_Step] | None = None
    step_overrides: list[_Step] | None = None
    sidecar_overrides: list[_Step] | None = None
    compute_resources: msgspec.Raw = _RAW_NULL


_TASK_DECODER = msgspec.json.Decoder(_Task | None)
_TASK_RUN_DECODER = msgspec.json.Decoder(_TaskRun)
_PlacedResources = tuple[str, msgspec.Raw]


def _compose_task(content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the template of a task: one container for each step and sidecar."""
    task = _TASK_DECODER.decode(content) or _Task()
    return _compose_task_pod(task, _list_task_resources(task, path), {}, path)


def _compose_task_run(content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the template of a run: its task with the resources of the run, which it has as a whole or for each step.

    The resources of a run as a whole replace those of all steps, which share them
    (pkg/internal/computeresources/tasklevel/tasklevel.go).
    """
    run = _TASK_RUN_DECODER.decode(content)
    task = _TASK_DECODER.decode(run.task_spec) or _Task()
    overridden: dict[str, dict[str, _PlacedResources]] = {}
    for kind, list_name, overrides in (
        ("steps", "stepSpecs", run.step_specs),
        ("steps", "stepOverrides", run.step_overrides),
        ("sidecars", "sidecarSpecs", run.sidecar_specs),
        ("sidecars", "sidecarOverrides", run.sidecar_overrides),
    ):
        for index, override in enumerate(overrides or ()):
            name, resources = override.find_resources()
            overridden.setdefault(kind, {})[override.name] = (f"{path}.{list_name}[{index}].{name}", resources)
    if bytes(run.compute_resources) != _NULL:
        task = _Task(sidecars=task.sidecars)
    written = _list_task_resources(task, f"{path}.taskSpec", overridden)
    if bytes(run.compute_resources) != _NULL:
        written.insert(0, (f"{path}.computeResources", run.compute_resources))
    settings = run.pod_template or {}
    return _compose_task_pod(task, written, {name: settings[name] for name in _POD_SETTINGS if name in settings}, path)


_NO_OVERRIDES: Mapping[str, Mapping[str, _PlacedResources]] = {}


def _list_task_resources(
    task: _Task, path: str, overridden: Mapping[str, Mapping[str, _PlacedResources]] = _NO_OVERRIDES
) -> list[_PlacedResources]:
    """Return the resources of steps and sidecars with their places; a step has those of the template too."""
    template_name, template_content = (task.step_template or _Step()).find_resources()
    template = _AMOUNTS_DECODER.decode(template_content) or _Amounts()
    written: list[_PlacedResources] = []
    for kind, steps in (("steps", task.steps), ("sidecars", task.sidecars)):
        for index, step in enumerate(steps or ()):
            name, resources = step.find_resources()
            place = f"{path}.{kind}[{index}].{name}"
            own = overridden.get(kind, {}).get(step.name)
            if own is not None:
                place, resources = own
            if kind == "steps" and template != _Amounts():
                place = f"{path}.stepTemplate.{template_name}" if bytes(resources) == _NULL else place
                resources = _encode(_merge_amounts(template, _AMOUNTS_DECODER.decode(resources) or _Amounts()))
            written.append((place, resources))
    return written


def _merge_amounts(base: _Amounts, changes: _Amounts) -> _Amounts:
    return _Amounts(
        {**(base.requests or {}), **(changes.requests or {})} or None,
        {**(base.limits or {}), **(changes.limits or {})} or None,
        changes.claims or base.claims,
    )


def _compose_task_pod(
    task: _Task, written: Sequence[_PlacedResources], settings: Mapping[str, msgspec.Raw], path: str
) -> ComposedTemplate:
    containers = [{"name": "", "resources": resources} for _, resources in written]
    places = {f"spec.containers[{index}].resources": place for index, (place, _) in enumerate(written)}
    return ComposedTemplate(
        _encode({"spec": {**settings, "containers": containers}}),
        {**places, "spec": path},
        completeness=Completeness.WHOLE if task.step_template is None else Completeness.MERGED,
    )


def _list_places(written: Iterable[tuple[str, msgspec.Raw]]) -> dict[str, str]:
    return {f"spec.containers[{index}]": place for index, (place, _) in enumerate(written)}


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
