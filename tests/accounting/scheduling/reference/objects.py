"""Objects as the API server stores them, and the fields that several plugins read."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""An object, decoded from JSON."""

Labels = Mapping[str, str]


def get_metadata(obj: Json) -> Json:
    """Return `metadata`."""
    return obj.get("metadata") or {}


def get_spec(obj: Json) -> Json:
    """Return `spec`."""
    return obj.get("spec") or {}


def get_status(obj: Json) -> Json:
    """Return `status`."""
    return obj.get("status") or {}


def get_name(obj: Json) -> str:
    """Return `metadata.name`."""
    return str(get_metadata(obj).get("name", ""))


def get_namespace(obj: Json) -> str:
    """Return `metadata.namespace`; an object without one is in `default`."""
    return str(get_metadata(obj).get("namespace") or "default")


def get_labels(obj: Json) -> Labels:
    """Return `metadata.labels`."""
    return get_metadata(obj).get("labels") or {}


def get_annotations(obj: Json) -> Labels:
    """Return `metadata.annotations`."""
    return get_metadata(obj).get("annotations") or {}


def get_uid(obj: Json) -> str:
    """Return `metadata.uid`, empty for an object that is not stored yet."""
    return str(get_metadata(obj).get("uid", ""))


def is_being_deleted(obj: Json) -> bool:
    """Return whether `metadata.deletionTimestamp` is set."""
    return bool(get_metadata(obj).get("deletionTimestamp"))


def get_priority(pod: Json) -> int:
    """Return PodPriority, as in CH scheduling/corev1/helpers.go."""
    return int(get_spec(pod).get("priority") or 0)


def get_volumes(pod: Json) -> list[Json]:
    """Return `spec.volumes`."""
    return get_spec(pod).get("volumes") or []


def is_controlled_by(obj: Json, owner: Json) -> bool:
    """Implement IsControlledBy in apimachinery pkg/apis/meta/v1/controller_ref.go."""
    references = get_metadata(obj).get("ownerReferences") or []
    controller = next((each for each in references if each.get("controller")), None)
    return controller is not None and controller.get("uid") == get_uid(owner)
