"""Pods as the API server creates them: with the values of LimitRanges, the default PriorityClass and RuntimeClasses.

These may be among the manifests, or in a snapshot.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from tallygate.accounting.pod_defaults import (
    LIMIT_RANGER_ANNOTATION,
    LimitRangeIndex,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.accounting.validation.limit_ranges import validate_limit_range
from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.manifests.typed_objects import is_read, parse_object
from tallygate.cli.sources.snapshot_reader import SnapshotContents
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.objects.core import Container, LimitRange, PodSpec, ResourceRequirements
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PriorityClass, RuntimeClass, SchedulingPod

_POD_DECODER: Final = msgspec.json.Decoder(SchedulingPod)
_PRIORITY_CLASS_DECODER: Final = msgspec.json.Decoder(PriorityClass)
_RUNTIME_CLASS_DECODER: Final = msgspec.json.Decoder(RuntimeClass)
_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
_RUNTIME_CLASS: Final = ("node.k8s.io", "RuntimeClass")


class PodDefaultsFinder:
    """The values that new pods get, by a snapshot and the manifests that are applied to its cluster."""

    def __init__(
        self, snapshot: SnapshotContents, manifests: Iterable[Manifest], namespace: str, limits: Limits
    ) -> None:
        self._stored = snapshot.limit_ranges
        self._applied = LimitRangeIndex()
        self._priority_classes = dict(snapshot.priority_classes)
        self._has_priority_classes = bool(snapshot.priority_classes)  # every cluster has some
        self._runtime_classes = dict(snapshot.runtime_classes or {})
        self._has_runtime_classes = snapshot.runtime_classes is not None
        for manifest in manifests:
            with suppress(DocumentError, msgspec.ValidationError):
                self._add(manifest, namespace, limits)

    def _add(self, manifest: Manifest, namespace: str, limits: Limits) -> None:
        if (manifest.group, manifest.kind) == _PRIORITY_CLASS:
            self._priority_classes[manifest.name] = _PRIORITY_CLASS_DECODER.decode(
                to_json(manifest.node, limits.expanded)
            )
        elif (manifest.group, manifest.kind) == _RUNTIME_CLASS:
            self._runtime_classes[manifest.name] = _RUNTIME_CLASS_DECODER.decode(
                to_json(manifest.node, limits.expanded)
            )
        elif manifest.kind == "LimitRange" and is_read(manifest, BUILT_IN_TARGETS):
            typed = parse_object(manifest, namespace, limits, BUILT_IN_TARGETS)
            if typed is not None and isinstance(typed.content, LimitRange) and not validate_limit_range(typed.content):
                metadata = ObjectMeta(name=typed.subject.name, namespace=typed.subject.namespace)
                self._applied.put(LimitRange(metadata, typed.content.spec))

    def find(self, namespace: str) -> PodDefaults:
        """Return the values for new pods of a namespace."""
        stored = self._stored.list_in(namespace) if self._stored is not None else ()
        by_name = {
            limit_range.metadata.name: limit_range
            for limit_range in (*stored, *self._applied.list_in(namespace))
            if limit_range.metadata
        }
        return create_pod_defaults(
            by_name.values(),
            self._priority_classes,
            self._runtime_classes,
            has_limit_ranges=self._stored is not None,
            has_priority_classes=self._has_priority_classes,
            has_runtime_classes=self._has_runtime_classes,
        )


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
    return {name: each for name, each in lists.items() if each}
