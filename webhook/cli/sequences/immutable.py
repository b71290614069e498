"""What of a stored pod's resources nobody may change.

As ValidatePodUpdate and ValidatePodResize of pkg/apis/core/validation/validation.go, v1.36, have it.
"""

from typing import Final

import msgspec

from webhook.accounting.pod_resources import PodResources, Quantities, parse_pod_resources
from webhook.admission.workloads import DecodedObject
from webhook.cli.sequences.model import Body
from webhook.objects.core import Pod, PodSpec

_RESIZABLE: Final = frozenset({"cpu", "memory"})


def not_changeable(judged: DecodedObject, before: Body, subresource: str) -> str:
    """Why a pod may not change so; empty when it may, or when it is no pod. Both have passed validation."""
    if not isinstance(judged, Pod):
        return ""
    new, old = _asks(judged), _asks(msgspec.json.decode(msgspec.json.encode(before), type=Pod))
    if subresource == "resize":
        same = _fixed(new) == _fixed(old)
        return "" if same else "spec: Forbidden: only cpu and memory resources are mutable"
    return "" if new == old else "spec: Forbidden: pod updates may not change what a pod asks for; resize it instead"


def _asks(pod: Pod) -> PodResources:
    return parse_pod_resources(pod.spec or PodSpec())


def _fixed(pod: PodResources) -> list[tuple[str, Quantities, Quantities]]:
    """What each container asks for that a resize cannot change."""
    return [(each.name, _rest(each.requests), _rest(each.limits)) for each in (*pod.init, *pod.containers)]


def _rest(quantities: Quantities) -> Quantities:
    return {name: quantity for name, quantity in quantities.items() if name not in _RESIZABLE}
