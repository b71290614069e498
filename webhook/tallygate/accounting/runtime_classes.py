"""RuntimeClasses: the overhead, node selector and tolerations that admission writes into the pods that name one.

Source: setOverhead, setScheduling and validateOverhead in plugin/pkg/admission/runtimeclass/admission.go, v1.37.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from tallygate.accounting.pod_resources import Quantities, parse_resource_list
from tallygate.objects.core import PodSpec
from tallygate.objects.scheduling import RuntimeClass, RuntimeClassScheduling, SchedulingPodSpec

S = TypeVar("S", bound=PodSpec)
_OVERHEAD = "spec.overhead"


def complete_by_class(spec: S, runtime_class: RuntimeClass) -> S:
    """Return the spec of a pod with what its class gives it; an overhead or selector that it has stays."""
    overhead = runtime_class.overhead.pod_fixed if runtime_class.overhead is not None else None
    if overhead and not spec.overhead:
        spec = msgspec.structs.replace(spec, overhead=overhead)
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()
    if scheduling.node_selector:
        spec = msgspec.structs.replace(spec, node_selector={**scheduling.node_selector, **(spec.node_selector or {})})
    if scheduling.tolerations and isinstance(spec, SchedulingPodSpec):
        own = spec.tolerations or []
        added = [toleration for toleration in scheduling.tolerations if toleration not in own]
        spec = msgspec.structs.replace(spec, tolerations=[*own, *added])
    return spec


class ClassProblem(NamedTuple):
    """The field of a pod for which admission rejects it, and the reason."""

    field: str
    message: str


def find_class_problem(
    spec: PodSpec, runtime_classes: Mapping[str, RuntimeClass], *, is_stored: bool
) -> ClassProblem | None:
    """Return why admission rejects a pod for its RuntimeClass; None if it does not, or the class is not known.

    An empty overhead counts as one unless it `is_stored` in a template: it is absent there.

    Raises:
        QuantityError: if an overhead is invalid.
    """
    name, written = spec.runtime_class_name, parse_resource_list(spec.overhead)
    if not name:
        text = "a pod has the overhead of its RuntimeClass, and this one names no class: remove overhead"
        return ClassProblem(_OVERHEAD, text) if written or (spec.overhead is not None and not is_stored) else None
    runtime_class = runtime_classes.get(name)
    if runtime_class is None:
        return None
    if message := _compare_overhead(name, written, runtime_class):
        return ClassProblem(_OVERHEAD, message)
    return _compare_selector(name, spec, runtime_class)


def _compare_overhead(name: str, written: Quantities, runtime_class: RuntimeClass) -> str:
    overhead = parse_resource_list(runtime_class.overhead.pod_fixed if runtime_class.overhead is not None else None)
    if not written or written == overhead:
        return ""
    if not overhead:
        return f"RuntimeClass {name} has no overhead: remove that of the pod"
    text = ", ".join(f"{resource}: {quantity}" for resource, quantity in overhead.items())
    return f"RuntimeClass {name} has another overhead: remove it, or write {text}"


def _compare_selector(name: str, spec: PodSpec, runtime_class: RuntimeClass) -> ClassProblem | None:
    selector = (runtime_class.scheduling.node_selector if runtime_class.scheduling is not None else None) or {}
    own = spec.node_selector or {}
    differing = sorted(key for key, value in selector.items() if own.get(key, value) != value)
    if not differing:
        return None
    texts = ", ".join(f"{key}: {selector[key]}" for key in differing)
    message = f"RuntimeClass {name} selects nodes with {texts}, and the pod selects others: remove it here"
    return ClassProblem(f"spec.nodeSelector[{differing[0]}]", message)
