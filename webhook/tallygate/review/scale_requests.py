"""Scale requests: the update of a workload that a Scale subresource stands for.

A Scale contains the number of replicas, not the pod template. So the gate reads the workload, at the version of the
Scale only. If another client has changed the workload since, the API server finds a conflict and calls the webhook
again.
"""

from typing import Protocol

import msgspec

from tallygate.admission.kinds import REVIEW_TARGETS, SCALABLE_KINDS
from tallygate.admission.request import UPDATE, AdmissionRequest, ReviewError
from tallygate.errors import TallygateError
from tallygate.objects.meta import ObjectMeta, PartialObjectMetadata

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    """A Scale of autoscaling/v1 (k8s.io/api/autoscaling/v1/types.go, v1.36), with the metadata of any object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


_SCALE = msgspec.json.Decoder(_Scale)
_STORED = msgspec.json.Decoder(PartialObjectMetadata)


class WorkloadReader(Protocol):
    """A reader of workloads."""

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the JSON of the object, of a resource by group, version and plural; None if it does not exist.

        It is read from the quorum.

        Raises:
            TallygateError: if the object cannot be read.
        """
        ...


def is_scale_request(request: AdmissionRequest) -> bool:
    """Return whether the request sets the number of replicas of a workload."""
    kind = (request.operation, request.group, request.kind, request.subresource)
    return kind == (UPDATE, "autoscaling", "Scale", "scale") and request.resource in SCALABLE_KINDS


class UnreadableWorkloadError(TallygateError):
    """The workload of a scale request cannot be read, so its pods are unknown; the request can be sent again."""


def resolve_scale(
    request: AdmissionRequest, workload_reader: WorkloadReader, *, must_be_read: bool = False
) -> AdmissionRequest | None:
    """Return the update of the workload; None if its pods do not increase, and if the workload is unknown.

    Raises:
        ReviewError: if an object is not a Scale.
        UnreadableWorkloadError: if the workload cannot be read, and `must_be_read`.
    """
    new, old = _decode_scale(request.object), _decode_scale(request.old_object or b"{}")
    if new.spec.replicas <= old.spec.replicas:
        return None
    (group, plural), kind = request.resource, SCALABLE_KINDS[request.resource]
    version = REVIEW_TARGETS[group, kind].versions[0]
    try:
        stored = workload_reader.read_workload((group, version, plural), request.namespace, request.name)
        if stored is None or not _is_same_version(old.metadata, stored):
            return None
        scaled = _set_replicas(stored, new.spec.replicas)
    except (TallygateError, ValueError, KeyError, RecursionError) as error:
        if must_be_read:
            name = f"{kind} {request.namespace}/{request.name}"
            raise UnreadableWorkloadError(f"{name}, which starts more pods, cannot be read: {error}") from error
        return None
    return msgspec.structs.replace(request, group=group, kind=kind, subresource="", object=scaled, old_object=stored)


def _decode_scale(raw: bytes | msgspec.Raw) -> _Scale:
    try:
        return _SCALE.decode(raw)
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a Scale: {error}") from None


def _is_same_version(scale: ObjectMeta, stored: bytes) -> bool:
    """Return whether the stored object is the one of the Scale, at the same version."""
    meta = _STORED.decode(stored).metadata or ObjectMeta()
    return bool(scale.uid) and (meta.uid, meta.resource_version) == (scale.uid, scale.resource_version)


def _set_replicas(stored: bytes, replicas: int) -> bytes:
    """Return the JSON of the workload with this number of replicas; all else is unchanged."""
    fields = _FIELDS.decode(stored)
    spec = _FIELDS.decode(fields["spec"])
    spec["replicas"] = msgspec.Raw(b"%d" % replicas)
    fields["spec"] = msgspec.Raw(msgspec.json.encode(spec))
    return msgspec.json.encode(fields)
