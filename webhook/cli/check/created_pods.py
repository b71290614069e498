"""Pods as the API server creates them: with the values of LimitRanges and of the default PriorityClass.

These may be among the manifests, or in a snapshot. RuntimeClasses among the manifests decide about the overhead.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from tallygate.webhook.accounting.kubernetes_codes import OVERHEAD_NOT_OF_CLASS
from tallygate.webhook.accounting.pod_defaults import (
    LIMIT_RANGER_ANNOTATION,
    LimitRangeIndex,
    PodDefaults,
    create_pod_defaults,
)
from tallygate.webhook.accounting.pod_resources import Quantities, parse_resource_list
from tallygate.webhook.accounting.problem import Problem, Reason
from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.admission.kinds import BUILT_IN_TARGETS
from tallygate.webhook.admission.pod_view import read_template
from tallygate.webhook.cli.manifests.manifest_objects import Manifest
from tallygate.webhook.cli.manifests.typed_objects import TypedObject, is_read, parse_object
from tallygate.webhook.cli.sources.snapshot_reader import SnapshotContents
from tallygate.webhook.documents.syntax_tree import DocumentError, Limits
from tallygate.webhook.documents.to_json import to_json
from tallygate.webhook.objects.core import Container, LimitRange, Pod, ResourceList, ResourceRequirements
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.objects.scheduling import PriorityClass

_POD_DECODER: Final = msgspec.json.Decoder(Pod)
_CLASS_DECODER: Final = msgspec.json.Decoder(PriorityClass)
_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")


class PodDefaultsFinder:
    """The values that new pods get, by a snapshot and the manifests that are applied to its cluster."""

    def __init__(
        self, snapshot: SnapshotContents, manifests: Iterable[Manifest], namespace: str, limits: Limits
    ) -> None:
        self._stored = snapshot.limit_ranges
        self._applied = LimitRangeIndex()
        self._classes = dict(snapshot.priority_classes)
        self._has_classes = bool(snapshot.priority_classes)  # every cluster has some
        for manifest in manifests:
            with suppress(DocumentError, msgspec.ValidationError):
                self._add(manifest, namespace, limits)

    def _add(self, manifest: Manifest, namespace: str, limits: Limits) -> None:
        if (manifest.group, manifest.kind) == _PRIORITY_CLASS:
            self._classes[manifest.name] = _CLASS_DECODER.decode(to_json(manifest.node, limits.expanded))
        elif manifest.kind == "LimitRange" and is_read(manifest, BUILT_IN_TARGETS):
            typed = parse_object(manifest, namespace, limits, BUILT_IN_TARGETS)
            if typed is not None and isinstance(typed.content, LimitRange):
                metadata = ObjectMeta(name=typed.subject.name, namespace=typed.subject.namespace)
                self._applied.put(LimitRange(metadata, typed.content.spec))

    def find(self, namespace: str) -> PodDefaults:
        """Return the values for new pods of a namespace."""
        stored = self._stored.list_in(namespace) if self._stored is not None else ()
        by_name = {each.metadata.name: each for each in (*stored, *self._applied.list_in(namespace)) if each.metadata}
        return create_pod_defaults(
            by_name.values(),
            self._classes,
            has_limit_ranges=self._stored is not None,
            has_priority_classes=self._has_classes,
        )


def set_pod_defaults(body: dict[str, Any], defaults: PodDefaults) -> None:
    """Fill in what built-in admission gives a new pod, and the annotation that LimitRanger writes.

    The pod must have been decoded before, and its missing requests copied from its limits.
    """
    pod = _POD_DECODER.decode(msgspec.json.encode(body))
    completed = defaults.complete(pod)
    if completed is pod or completed.spec is None or pod.spec is None:
        return
    spec, changes = body["spec"], list[str]()
    if completed.spec.priority_class_name:
        spec["priorityClassName"] = completed.spec.priority_class_name
    for name, noun, old, new in (
        ("containers", "container", pod.spec.containers, completed.spec.containers),
        ("initContainers", "init container", pod.spec.init_containers, completed.spec.init_containers),
    ):
        for container, before, after in zip(spec.get(name) or (), old or (), new or (), strict=True):
            if before is not after:
                container["resources"] = (container.get("resources") or {}) | _encode(after.resources)
                changes += _describe_changes(before, after, noun)
    if changes:
        metadata = body.setdefault("metadata", {})
        set_by = {LIMIT_RANGER_ANNOTATION: f"LimitRanger plugin set: {'; '.join(changes)}"}
        metadata["annotations"] = (metadata.get("annotations") or {}) | set_by


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


class _Overhead(msgspec.Struct, rename="camel"):
    pod_fixed: ResourceList | None = None


class _RuntimeClass(msgspec.Struct):
    overhead: _Overhead | None = None


class _RuntimePodSpec(msgspec.Struct, rename="camel"):
    runtime_class_name: str | None = None
    overhead: ResourceList | None = None


class _RuntimePod(msgspec.Struct):
    spec: _RuntimePodSpec | None = None


_RUNTIME_CLASS_DECODER: Final = msgspec.json.Decoder(_RuntimeClass)
_RUNTIME_POD_DECODER: Final = msgspec.json.Decoder(_RuntimePod)
_RUNTIME_CLASS: Final = ("node.k8s.io", "RuntimeClass")


class RuntimeClasses:
    """The RuntimeClasses among the manifests, whose overhead admission demands of pods.

    Source: validateOverhead in plugin/pkg/admission/runtimeclass/admission.go, v1.37.
    """

    def __init__(self, manifests: Iterable[Manifest], limits: Limits) -> None:
        self._overheads: dict[str, Quantities] = {}
        for manifest in manifests:
            if (manifest.group, manifest.kind) == _RUNTIME_CLASS:
                with suppress(DocumentError, msgspec.ValidationError, QuantityError):
                    runtime_class = _RUNTIME_CLASS_DECODER.decode(to_json(manifest.node, limits.expanded))
                    overhead = runtime_class.overhead or _Overhead()
                    self._overheads[manifest.name] = parse_resource_list(overhead.pod_fixed)

    def validate(self, typed: TypedObject) -> Iterator[Problem]:
        """Yield a problem for each pod or template whose pods admission rejects for their overhead."""
        for view in typed.views if isinstance(typed.content, Pod) or typed.target.creates_pods else ():
            with suppress(QuantityError, msgspec.ValidationError):  # validation reports these
                spec = _RUNTIME_POD_DECODER.decode(read_template(view, typed.body)).spec
                if spec is not None and (message := self._describe(spec)):
                    field = view.locate("spec.overhead")
                    yield Problem(field, OVERHEAD_NOT_OF_CLASS.number, Reason.FORBIDDEN, message)

    def _describe(self, spec: _RuntimePodSpec) -> str:
        name, written = spec.runtime_class_name, parse_resource_list(spec.overhead)
        if not written or (name and name not in self._overheads):
            return ""
        if not name:
            return "a pod has the overhead of its RuntimeClass, and this one names no class: remove overhead"
        overhead = self._overheads[name]
        if not overhead:
            return f"RuntimeClass {name} has no overhead: remove that of the pod"
        text = ", ".join(f"{resource}: {quantity}" for resource, quantity in overhead.items())
        return "" if written == overhead else f"RuntimeClass {name} has another overhead: remove it, or write {text}"
