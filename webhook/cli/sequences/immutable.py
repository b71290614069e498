"""What of a stored pod's resources nobody may change.

As ValidatePodUpdate and ValidatePodResize of pkg/apis/core/validation/validation.go, v1.36, have it.
"""

from typing import Final

import msgspec

from webhook.accounting.pod_resources import PodResources, Quantities, parse_pod_resources
from webhook.admission.kinds import DecodedObject
from webhook.cli.sequences.model import JsonObject
from webhook.objects.core import Pod, PodSpec

_RESIZABLE: Final = frozenset({"cpu", "memory"})


def find_immutable_change(new_object: DecodedObject, old_body: JsonObject, subresource: str) -> str:
    """Why a pod may not change so; empty when it may, or when it is no pod. Both have passed validation."""
    if not isinstance(new_object, Pod):
        return ""
    new, old = (
        _read_resources(new_object),
        _read_resources(msgspec.json.decode(msgspec.json.encode(old_body), type=Pod)),
    )
    if subresource == "resize":
        is_same = _list_fixed_resources(new) == _list_fixed_resources(old)
        return "" if is_same else "spec: Forbidden: only cpu and memory resources are mutable"
    return "" if new == old else "spec: Forbidden: pod updates may not change what a pod asks for; resize it instead"


def _read_resources(pod: Pod) -> PodResources:
    return parse_pod_resources(pod.spec or PodSpec())


def _list_fixed_resources(pod: PodResources) -> list[tuple[str, Quantities, Quantities]]:
    """What each container asks for that a resize cannot change."""
    return [
        (container.name, _exclude_resizable(container.requests), _exclude_resizable(container.limits))
        for container in (*pod.init, *pod.containers)
    ]


def _exclude_resizable(quantities: Quantities) -> Quantities:
    return {name: quantity for name, quantity in quantities.items() if name not in _RESIZABLE}
