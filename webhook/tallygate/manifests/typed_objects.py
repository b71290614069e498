"""Typed objects: those of a manifest that request resources, decoded and with their namespace."""

import re
from dataclasses import dataclass, replace

import msgspec

from tallygate.admission.kinds import DecodedObject, ReviewTarget, ReviewTargets
from tallygate.admission.object_values import TooManyItemsError
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import CREATE, AdmissionRequest
from tallygate.documents.syntax_tree import Limits, Node, Scalar, locate
from tallygate.documents.to_json import to_json
from tallygate.manifests.findings import FindingSubject
from tallygate.manifests.manifest_objects import Manifest, ManifestError
from tallygate.manifests.unread_kinds import find_wrong_kind, is_old_claim

_TYPE_PATTERN = re.compile(r"`([a-z]+)(?: \| null)?`")
_TYPE_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_CLUSTER_SCOPED = frozenset({"Node"})


@dataclass(frozen=True, slots=True)
class TypedObject:
    """An object of a kind that requests resources: as written, as JSON, decoded, and its pods or pod templates."""

    manifest: Manifest
    subject: FindingSubject
    body: bytes
    target: ReviewTarget
    content: DecodedObject
    views: tuple[PodView, ...]

    @property
    def request(self) -> AdmissionRequest:
        manifest, subject = self.manifest, self.subject
        return AdmissionRequest(
            manifest.kind, CREATE, self.body, group=manifest.group, namespace=subject.namespace, name=subject.name
        )


def create_subject(manifest: Manifest, namespace: str, targets: ReviewTargets) -> FindingSubject:
    """Create the subject of an object; `namespace` is the default if the object has none."""
    target = targets.get((manifest.group, manifest.kind))
    is_defined_so = target is not None and target.definition is not None and not target.definition.is_namespaced
    is_namespaced = manifest.kind not in _CLUSTER_SCOPED and not is_defined_so
    object_namespace = (manifest.namespace or namespace) if is_namespaced else ""
    return FindingSubject(manifest.document, manifest.kind, object_namespace, manifest.name, manifest.origin)


def is_read(manifest: Manifest, targets: ReviewTargets) -> bool:
    """Return whether the kind of an object is one of the targets, in the apiVersion that API servers have."""
    target = targets.get((manifest.group, manifest.kind))
    if target is None or is_old_claim(manifest) or find_wrong_kind(manifest, targets) is not None:
        return False
    return target.definition is None or manifest.version in target.versions


def parse_object(manifest: Manifest, namespace: str, limits: Limits, targets: ReviewTargets) -> TypedObject | None:
    """Decode an object; return None if its kind requests no resources.

    Raises:
        DocumentError: if a field has another type than in the API, or aliases expand beyond the limits.
    """
    target = targets.get((manifest.group, manifest.kind))
    if target is None:
        return None
    body = to_json(manifest.node, limits.expanded)
    try:
        content = target.decode(body)
    except msgspec.ValidationError as error:
        raise _create_type_error(manifest, error) from error
    except TooManyItemsError as error:
        raise ManifestError("TG402", manifest.node.position, str(error)) from error
    subject = create_subject(manifest, namespace, targets)
    return TypedObject(manifest, subject, body, target, content, tuple(target.list_pods(content)))


def replace_body(typed: TypedObject, body: bytes) -> TypedObject:
    """Return the object with another body."""
    content = typed.target.decode(body)
    return replace(typed, body=body, content=content, views=tuple(typed.target.list_pods(content)))


def _create_type_error(manifest: Manifest, error: msgspec.ValidationError) -> ManifestError:
    """Create the error of a wrong type.

    Its text is like "Expected `array`, got `object` - at `$.spec.containers`", with `[...]` for the keys of maps.
    """
    text, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").removeprefix(".").replace("[...]", "")
    location = locate(manifest.node, field)
    expectation = _TYPE_PATTERN.sub(lambda match: _TYPE_NAMES.get(match[1], match[1]), text).replace(" | null", "")
    message = f"{field}: {expectation[:1].lower()}{expectation[1:]}" if field else expectation
    return ManifestError(
        "TG404", location.position, f"{message}{_suggest_quotes(location.node)}; the API server could not decode this"
    )


def _suggest_quotes(node: Node) -> str:
    """Return the advice to quote a word that YAML does not read as text, such as `n` in `name: n`."""
    if not isinstance(node, Scalar) or isinstance(node.value, str | None):
        return ""
    meaning = f", which means {str(node.value).lower()}" if isinstance(node.value, bool) else ""
    return f' (without quotes{meaning}: write "{node.text}" if a text is meant)'
