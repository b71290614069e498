"""What a pod's priority is once the API server has filled it in.

Source: establishPriority in plugin/pkg/admission/priority/admission.go and pkg/apis/scheduling/types.go, v1.36.
"""

from collections.abc import Mapping

import msgspec

from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PriorityClass, SchedulingPod, SchedulingPodSpec

_SYSTEM = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_PREEMPTING = "PreemptLowerPriority"


class NoPriorityClassError(TallygateError):
    """A pod names a PriorityClass that is not there; the API server would refuse it."""


def prioritised(pod: SchedulingPod, classes: Mapping[str, PriorityClass]) -> SchedulingPod:
    """The pod with the priority and the preemption policy that it is stored with. A stored pod has them.

    Raises:
        NoPriorityClassError: it names a class that is not among these.
    """
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    found = _named(spec.priority_class_name, classes) if spec.priority_class_name else _default(classes)
    policy = found.preemption_policy or spec.preemption_policy or _PREEMPTING
    stored = msgspec.structs.replace(spec, priority=found.value, preemption_policy=policy)
    return msgspec.structs.replace(pod, spec=stored)


def _named(name: str, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    if name in classes:
        return classes[name]
    if name in _SYSTEM:
        return PriorityClass(ObjectMeta(name=name), _SYSTEM[name])
    known = ", ".join(sorted({*classes, *_SYSTEM}))
    raise NoPriorityClassError(f"no PriorityClass with name {name} was found; there are {known}")


def _default(classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """The class of pods that name none; of several by mistake, the lowest."""
    defaults = [each for each in classes.values() if each.global_default]
    return min(defaults, key=lambda each: each.value, default=PriorityClass())
