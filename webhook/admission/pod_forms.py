"""The forms of pods in objects of other projects: each is composed to the JSON of a pod template.

The places of a composed template are the paths in the object of those fields of the template that are elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from tallygate.webhook.policy.workload_kinds import PodForm

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
    state one amount without its name.
    """

    content: msgspec.Raw
    places: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, str] = field(default_factory=dict)


def compose_template(form: PodForm, content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the pod template in the value at a path.

    Raises:
        ValueError: if a field has another type.
    """
    match form:
        case PodForm.SPEC:
            return ComposedTemplate(msgspec.Raw(b'{"spec":' + bytes(content) + b"}"), {"spec": path})
        case PodForm.RESOURCES:
            body = b'{"spec":{"containers":[{"name":"","resources":' + bytes(content) + b"}]}}"
            return ComposedTemplate(msgspec.Raw(body), {"spec.containers[0].resources": path})
        case PodForm.WORKFLOW:
            return _compose_workflow_template(content, path)
        case PodForm.COMPONENT:
            return _compose_component(content, path)
        case PodForm.SPARK_POD:
            return _compose_spark_pod(content, path)
        case _:
            return ComposedTemplate(content)


class _ContainerSet(msgspec.Struct):
    containers: list[msgspec.Raw] | None = None


class _WorkflowTemplate(msgspec.Struct, rename="camel"):
    """A template of an Argo Workflow (pkg/apis/workflow/v1alpha1/workflow_types.go, Template)."""

    metadata: msgspec.Raw = _RAW_NULL
    container: msgspec.Raw = _RAW_NULL
    script: msgspec.Raw = _RAW_NULL
    container_set: _ContainerSet | None = None
    sidecars: list[msgspec.Raw] | None = None
    init_containers: list[msgspec.Raw] | None = None
    node_selector: msgspec.Raw = _RAW_NULL
    affinity: msgspec.Raw = _RAW_NULL
    tolerations: msgspec.Raw = _RAW_NULL
    priority_class_name: msgspec.Raw = _RAW_NULL
    scheduler_name: msgspec.Raw = _RAW_NULL


_WORKFLOW_TEMPLATE_DECODER = msgspec.json.Decoder(_WorkflowTemplate)


def _compose_workflow_template(content: msgspec.Raw, path: str) -> ComposedTemplate:
    template = _WORKFLOW_TEMPLATE_DECODER.decode(content)
    main = (("container", template.container), ("script", template.script))
    in_set = (template.container_set.containers if template.container_set else None) or ()
    written = [
        *((f"{path}.{name}", each) for name, each in main if bytes(each) != _NULL),
        *((f"{path}.containerSet.containers[{index}]", each) for index, each in enumerate(in_set)),
        *((f"{path}.sidecars[{index}]", each) for index, each in enumerate(template.sidecars or ())),
    ]
    places = _list_places(written) | {
        f"spec.initContainers[{index}]": f"{path}.initContainers[{index}]"
        for index in range(len(template.init_containers or ()))
    }
    spec = {
        "containers": [each for _, each in written],
        "initContainers": template.init_containers or [],
        "nodeSelector": template.node_selector,
        "affinity": template.affinity,
        "tolerations": template.tolerations,
        "priorityClassName": template.priority_class_name,
        "schedulerName": template.scheduler_name,
    }
    return ComposedTemplate(_encode({"metadata": template.metadata, "spec": spec}), {**places, "spec": path})


_MAPPING_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CONTAINERS_DECODER = msgspec.json.Decoder(list[msgspec.Raw] | None)


def _compose_component(content: msgspec.Raw, path: str) -> ComposedTemplate:
    """Return the template of a component of KServe: its containers, and those of its model."""
    spec = _MAPPING_DECODER.decode(content)
    containers = _CONTAINERS_DECODER.decode(spec.get("containers", _RAW_NULL)) or ()
    written = [
        *((f"{path}.{name}", spec[name]) for name in _MODEL_FIELDS if bytes(spec.get(name, _RAW_NULL)) != _NULL),
        *((f"{path}.containers[{index}]", each) for index, each in enumerate(containers)),
    ]
    metadata = {name: spec[name] for name in ("labels", "annotations") if name in spec}
    template = {"metadata": metadata, "spec": {**spec, "containers": [each for _, each in written]}}
    return ComposedTemplate(_encode(template), {**_list_places(written), "spec": path})


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


def _list_places(written: Iterable[tuple[str, msgspec.Raw]]) -> dict[str, str]:
    return {f"spec.containers[{index}]": place for index, (place, _) in enumerate(written)}


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
