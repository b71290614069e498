"""A Scale says how many, not of what: the workload is read, and the change of it is what the Scale comes to.

Only at the very version that the Scale is of. Where somebody has changed the workload since, the API server finds a
conflict and asks again.
"""

from typing import Protocol

import msgspec

from webhook.admission.kinds import SCALABLE_KINDS
from webhook.admission.request import UPDATE, AdmissionRequest, ReviewError
from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta, PartialObjectMetadata

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    """autoscaling/v1 (k8s.io/api/autoscaling/v1/types.go, v1.36), and what any object has of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


_SCALE = msgspec.json.Decoder(_Scale)
_STORED = msgspec.json.Decoder(PartialObjectMetadata)


class WorkloadReader(Protocol):
    """Reads workloads."""

    def read_workload(self, resource: tuple[str, str], namespace: str, name: str) -> bytes | None:
        """The JSON of the object, of a resource by group and plural, from the quorum; None when there is none.

        Raises:
            TallygateError: it cannot be told.
        """
        ...


def is_scale_request(request: AdmissionRequest) -> bool:
    """Whether a workload is told to have another number of pods."""
    kind = (request.operation, request.group, request.kind, request.subresource)
    return kind == (UPDATE, "autoscaling", "Scale", "scale") and request.resource in SCALABLE_KINDS


def resolve_scale(request: AdmissionRequest, workload_reader: WorkloadReader) -> AdmissionRequest | None:
    """The change of the workload; None when it gets no more pods, and when it cannot be told what these are.

    Raises:
        ReviewError: an object is no Scale.
    """
    new, old = _decode_scale(request.object), _decode_scale(request.old_object or b"{}")
    if new.spec.replicas <= old.spec.replicas:
        return None
    try:
        stored = workload_reader.read_workload(request.resource, request.namespace, request.name)
        if stored is None or not _is_same_version(old.metadata, stored):
            return None
        scaled = _set_replicas(stored, new.spec.replicas)
    except (TallygateError, ValueError, KeyError, RecursionError):
        return None
    group, kind = request.resource[0], SCALABLE_KINDS[request.resource]
    return msgspec.structs.replace(request, group=group, kind=kind, subresource="", object=scaled, old_object=stored)


def _decode_scale(raw: bytes | msgspec.Raw) -> _Scale:
    try:
        return _SCALE.decode(raw)
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a Scale: {error}") from None


def _is_same_version(scale: ObjectMeta, stored: bytes) -> bool:
    """Whether this is the object, and the version of it, that a Scale shows."""
    meta = _STORED.decode(stored).metadata or ObjectMeta()
    return bool(scale.uid) and (meta.uid, meta.resource_version) == (scale.uid, scale.resource_version)


def _set_replicas(stored: bytes, replicas: int) -> bytes:
    """The workload with so many pods; all else as it is written."""
    fields = _FIELDS.decode(stored)
    spec = _FIELDS.decode(fields["spec"])
    spec["replicas"] = msgspec.Raw(b"%d" % replicas)
    fields["spec"] = msgspec.Raw(msgspec.json.encode(spec))
    return msgspec.json.encode(fields)
