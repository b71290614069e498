"""The objects among manifests on which the evaluation of others depends, as they are once all are applied.

These are namespaces, LimitRanges, PriorityClasses, RuntimeClasses, and the classes and templates of claims for devices.
An object that an API server could not decode, or would reject, is left out: the check of that manifest reports it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from tallygate.accounting.validation.limit_ranges import validate_limit_range
from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.cluster.kinds import KINDS
from tallygate.documents.syntax_tree import DocumentError, Limits, Scalar
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.documents.to_json import to_json
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import is_read, parse_object
from tallygate.objects.core import LimitRange, Namespace
from tallygate.objects.devices import ResourceClaimTemplate
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup

_CLASSES: Final = {
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
}
_NAMESPACED: Final = {"LimitRange", "ResourceClaimTemplate"}
_POD_GROUP: Final = ("scheduling.k8s.io", "PodGroup")
_POD_GROUP_DECODER: Final = msgspec.json.Decoder(PodGroup)
_DECODERS: Final = {kind: msgspec.json.Decoder(KINDS[kind].type) for _, kind in _CLASSES}


def is_namespace(manifest: Manifest) -> bool:
    """Return whether a manifest is that of a namespace."""
    return (manifest.group, manifest.kind) == ("", "Namespace")


def list_applied_objects(
    manifests: Iterable[Manifest], namespace: str, limits: Limits
) -> Iterator[tuple[str, msgspec.Struct]]:
    """Yield the kind and the content of each such object; `namespace` is the one of an object that names none."""
    for manifest in manifests:
        with suppress(DocumentError, msgspec.ValidationError):
            if is_namespace(manifest):
                metadata = ObjectMeta(
                    name=manifest.name,
                    labels=dict(read_texts(manifest, "labels")),
                    annotations=dict(read_texts(manifest, "annotations")),
                )
                yield "Namespace", Namespace(metadata)
            elif (manifest.group, manifest.kind) in _CLASSES:
                yield manifest.kind, _DECODERS[manifest.kind].decode(to_json(manifest.node, limits.expanded))
            elif (manifest.group, manifest.kind) == _POD_GROUP:
                group = _POD_GROUP_DECODER.decode(to_json(manifest.node, limits.expanded))
                metadata = ObjectMeta(name=manifest.name, namespace=manifest.namespace or namespace)
                yield manifest.kind, msgspec.structs.replace(group, metadata=metadata, status=None)
            elif manifest.kind in _NAMESPACED and is_read(manifest, BUILT_IN_TARGETS):
                yield from _parse_namespaced(manifest, namespace, limits)


def _parse_namespaced(manifest: Manifest, namespace: str, limits: Limits) -> Iterator[tuple[str, msgspec.Struct]]:
    typed = parse_object(manifest, namespace, limits, BUILT_IN_TARGETS)
    if typed is None:
        return
    metadata = ObjectMeta(name=typed.subject.name, namespace=typed.subject.namespace)
    if isinstance(typed.content, ResourceClaimTemplate):
        yield manifest.kind, ResourceClaimTemplate(metadata, typed.content.spec)
    elif isinstance(typed.content, LimitRange) and not validate_limit_range(typed.content):
        yield manifest.kind, LimitRange(metadata, typed.content.spec)


def read_texts(manifest: Manifest, field: str) -> Mapping[str, str]:
    """Return a mapping of the metadata; a value that is no text is empty, which an API server rejects."""
    metadata = manifest.node.get("metadata")
    node = metadata.get(field) if isinstance(metadata, MappingNode) else None
    entries = node.entries if isinstance(node, MappingNode) else []
    return {entry.name: _get_text(entry.value) for entry in entries}


def _get_text(node: object) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
