"""Pods as the API server creates them: with the values of LimitRanges, the default PriorityClass and RuntimeClasses."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tallygate.accounting.pod_defaults import LIMIT_RANGER_ANNOTATION, PodDefaults
from tallygate.objects.core import Container, PodSpec, ResourceRequirements
from tallygate.objects.scheduling import SchedulingPod

_POD_DECODER: Final = msgspec.json.Decoder(SchedulingPod)


def set_pod_defaults(body: dict[str, Any], defaults: PodDefaults) -> None:
    """Fill in what built-in admission gives a new pod, and the annotation that LimitRanger writes.

    The pod must have been decoded before, and its missing requests copied from its limits.
    """
    pod = _POD_DECODER.decode(msgspec.json.encode(body))
    completed = defaults.complete(pod)
    if completed is pod or completed.spec is None or pod.spec is None:
        return
    spec = body["spec"]
    if completed.spec.priority_class_name:
        spec["priorityClassName"] = completed.spec.priority_class_name
    before, after = (json.loads(msgspec.json.encode(each)) for each in (pod.spec, completed.spec))
    spec |= {
        name: after[name] for name in ("overhead", "nodeSelector", "resources") if after.get(name) != before.get(name)
    }
    if added := (after.get("tolerations") or [])[len(before.get("tolerations") or ()) :]:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]
    for name, old, new in (
        ("containers", pod.spec.containers, completed.spec.containers),
        ("initContainers", pod.spec.init_containers, completed.spec.init_containers),
    ):
        for container, was, becomes in zip(spec.get(name) or (), old or (), new or (), strict=True):
            if was is not becomes:
                container["resources"] = (container.get("resources") or {}) | _encode(becomes.resources)
    if set_by := describe_limit_ranger(pod.spec, completed.spec):
        metadata = body.setdefault("metadata", {})
        metadata["annotations"] = (metadata.get("annotations") or {}) | {LIMIT_RANGER_ANNOTATION: set_by}


def describe_limit_ranger(before: PodSpec, after: PodSpec) -> str:
    """Return the text of LimitRanger's annotation on a pod that it has completed; empty if it has set nothing."""
    changes = [
        change
        for noun, old, new in (
            ("container", before.containers, after.containers),
            ("init container", before.init_containers, after.init_containers),
        )
        for was, becomes in zip(old or (), new or (), strict=True)
        for change in _describe_changes(was, becomes, noun)
    ]
    return f"LimitRanger plugin set: {'; '.join(changes)}" if changes else ""


def _describe_changes(before: Container, after: Container, noun: str) -> Iterator[str]:
    """Yield the parts of LimitRanger's annotation for one container (mergeContainerResources)."""
    old, new = before.resources or ResourceRequirements(), after.resources or ResourceRequirements()
    for field, had, has in (("request", old.requests, new.requests), ("limit", old.limits, new.limits)):
        if added := sorted((has or {}).keys() - (had or {}).keys()):
            yield f"{', '.join(added)} {field} for {noun} {before.name}"


def _encode(resources: ResourceRequirements | None) -> dict[str, Any]:
    """Return the lists of requests and limits as JSON values."""
    found = resources or ResourceRequirements()
    lists: dict[str, Any] = json.loads(msgspec.json.encode({"requests": found.requests, "limits": found.limits}))
    return {name: entries for name, entries in lists.items() if entries}
