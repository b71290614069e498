"""Objects as the API server shows them, and the fields that several plugins read."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""An object, decoded from JSON."""

Labels = Mapping[str, str]


def metadata_of(thing: Json) -> Json:
    """`metadata`."""
    return thing.get("metadata") or {}


def spec_of(thing: Json) -> Json:
    """`spec`."""
    return thing.get("spec") or {}


def status_of(thing: Json) -> Json:
    """`status`."""
    return thing.get("status") or {}


def name_of(thing: Json) -> str:
    """`metadata.name`."""
    return str(metadata_of(thing).get("name", ""))


def namespace_of(thing: Json) -> str:
    """`metadata.namespace`; what kubectl sends without one goes to default."""
    return str(metadata_of(thing).get("namespace") or "default")


def labels_of(thing: Json) -> Labels:
    """`metadata.labels`."""
    return metadata_of(thing).get("labels") or {}


def annotations_of(thing: Json) -> Labels:
    """`metadata.annotations`."""
    return metadata_of(thing).get("annotations") or {}


def uid_of(thing: Json) -> str:
    """`metadata.uid`, empty for what was not stored yet."""
    return str(metadata_of(thing).get("uid", ""))


def is_being_deleted(thing: Json) -> bool:
    """Whether `metadata.deletionTimestamp` is set."""
    return bool(metadata_of(thing).get("deletionTimestamp"))


def priority_of(pod: Json) -> int:
    """PodPriority in CH scheduling/corev1/helpers.go."""
    return int(spec_of(pod).get("priority") or 0)


def volumes_of(pod: Json) -> list[Json]:
    """`spec.volumes`."""
    return spec_of(pod).get("volumes") or []


def is_controlled_by(thing: Json, owner: Json) -> bool:
    """IsControlledBy in apimachinery pkg/apis/meta/v1/controller_ref.go."""
    references = metadata_of(thing).get("ownerReferences") or []
    controller = next((each for each in references if each.get("controller")), None)
    return controller is not None and controller.get("uid") == uid_of(owner)
