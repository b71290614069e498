"""Known objects: those of a manifest that ask for resources, typed and in their namespace."""

import re
from dataclasses import dataclass, replace

import msgspec

from webhook.admission.change import CREATE, AdmissionRequest
from webhook.admission.workloads import REVIEW_TARGETS, DecodedObject, PodView
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.locate import locate
from webhook.cli.manifest.nodes import Node, Scalar
from webhook.cli.manifest.objects import Manifest
from webhook.cli.manifest.to_json import to_json
from webhook.cli.report.finding import Subject

_TYPE = re.compile(r"`([a-z]+)(?: \| null)?`")
_WORDS = {
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
class Known:
    """An object of a kind that asks for resources: as written, as JSON, typed, and its pod or template if any."""

    manifest: Manifest
    subject: Subject
    body: bytes
    judged: DecodedObject
    view: PodView | None

    @property
    def change(self) -> AdmissionRequest:
        """Its creation, as the gate would be asked about it."""
        manifest, subject = self.manifest, self.subject
        return AdmissionRequest(
            manifest.kind, CREATE, self.body, group=manifest.group, namespace=subject.namespace, name=subject.name
        )


def subject_of(manifest: Manifest, namespace: str) -> Subject:
    """Who an object is; `namespace` is where it goes when it says nothing itself."""
    where = "" if manifest.kind in _CLUSTER_SCOPED else manifest.namespace or namespace
    return Subject(manifest.document, manifest.kind, where, manifest.name, manifest.origin)


def known(manifest: Manifest, namespace: str, bounds: Bounds) -> Known | None:
    """The object typed, or None when its kind asks for nothing.

    Raises:
        Fault: a field has a value of another type than the API has there, or aliases expand beyond the bounds.
    """
    target = REVIEW_TARGETS.get((manifest.group, manifest.kind))
    if target is None:
        return None
    body = to_json(manifest.node, bounds.expanded)
    try:
        judged = target.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_shape(manifest, error) from error
    return Known(manifest, subject_of(manifest, namespace), body, judged, target.find_pod(judged))


def retyped(before: Known, body: bytes) -> Known:
    """The same object with another body."""
    target = REVIEW_TARGETS[before.manifest.group, before.manifest.kind]
    judged = target.decode(body)
    return replace(before, body=body, judged=judged, view=target.find_pod(judged))


def _wrong_shape(manifest: Manifest, error: msgspec.ValidationError) -> Fault:
    """The text is like "Expected `array`, got `object` - at `$.spec.containers`"; keys of maps are `[...]` there."""
    said, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").removeprefix(".").replace("[...]", "")
    spot = locate(manifest.node, field)
    wanted = _TYPE.sub(lambda match: _WORDS.get(match[1], match[1]), said).replace(" | null", "")
    message = f"{field}: {wanted[:1].lower()}{wanted[1:]}" if field else wanted
    return Fault("TG404", spot.place, f"{message}{_unquoted(spot.node)}; the API server could not decode this")


def _unquoted(node: Node) -> str:
    """What to do about a word that was meant as a text: `name: n` says false."""
    if not isinstance(node, Scalar) or isinstance(node.value, str | None):
        return ""
    means = f", which means {str(node.value).lower()}" if isinstance(node.value, bool) else ""
    return f' (without quotes{means}: write "{node.text}" if a text is meant)'
