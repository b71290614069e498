"""What a pod's priority is once the API server has filled it in.

Source: establishPriority in plugin/pkg/admission/priority/admission.go and pkg/apis/scheduling/types.go, v1.36.
"""

from collections.abc import Mapping

import msgspec

from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PriorityClass, SchedulingPod, SchedulingPodSpec

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_DEFAULT_POLICY = "PreemptLowerPriority"


class NoPriorityClassError(TallygateError):
    """A pod names a PriorityClass that is not there; the API server would refuse it."""


def with_resolved_priority(pod: SchedulingPod, classes: Mapping[str, PriorityClass]) -> SchedulingPod:
    """The pod with the priority and the preemption policy that it is stored with. A stored pod has them.

    Raises:
        NoPriorityClassError: it names a class that is not among these.
    """
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    priority_class = (
        _find_class(spec.priority_class_name, classes) if spec.priority_class_name else _find_default_class(classes)
    )
    policy = priority_class.preemption_policy or spec.preemption_policy or _DEFAULT_POLICY
    resolved_spec = msgspec.structs.replace(spec, priority=priority_class.value, preemption_policy=policy)
    return msgspec.structs.replace(pod, spec=resolved_spec)


def _find_class(name: str, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    if name in classes:
        return classes[name]
    if name in _SYSTEM_PRIORITIES:
        return PriorityClass(ObjectMeta(name=name), _SYSTEM_PRIORITIES[name])
    known_names = ", ".join(sorted({*classes, *_SYSTEM_PRIORITIES}))
    raise NoPriorityClassError(f"no PriorityClass with name {name} was found; there are {known_names}")


def _find_default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """The class of pods that name none; of several by mistake, the lowest."""
    defaults = [each for each in classes.values() if each.global_default]
    return min(defaults, key=lambda each: each.value, default=PriorityClass())
