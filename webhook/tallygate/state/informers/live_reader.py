"""Reads of single objects of a cluster, for what a watch shows too late.

A quorum read of a pod or claim decides whether a reservation became a stored object; a quorum read of a workload
returns its JSON.
"""

from threading import BoundedSemaphore
from typing import Final
from urllib.parse import quote

import msgspec

from tallygate.accounting.charge import ConsumerKind
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.resource_codec import parse_revision
from tallygate.kube.transport import Transport
from tallygate.objects.meta import PartialObjectMetadata

MAX_REVIEW_READS: Final = 16
"""The reads of workloads for reviews at a time; each takes milliseconds."""

_OK: Final = 200
_NOT_FOUND: Final = 404
_PATHS: Final = {
    ConsumerKind.POD: ("/api/v1", "pods"),
    ConsumerKind.CLAIM: ("/apis/resource.k8s.io/v1", "resourceclaims"),
}
_METADATA_DECODER: Final = msgspec.json.Decoder(PartialObjectMetadata)


class BoundedWorkloadReader:
    """A reader of workloads for reviews, with a limit of reads at a time.

    The sender of a review chooses what is read, and a forged review costs him less than the read costs the API server.
    """

    def __init__(self, reader: "LiveReader", max_reads: int = MAX_REVIEW_READS) -> None:
        self._reader = reader
        self._reads = BoundedSemaphore(max_reads)

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Read the JSON of an object of this group, version and plural; None if it does not exist.

        Raises:
            ApiError: if the object cannot be read, or too many reads are in progress; the review can be sent again.
        """
        if not self._reads.acquire(blocking=False):
            raise ApiError(ApiErrorReason.BUSY, "too many reads for reviews are in progress")
        try:
            return self._reader.read_workload(resource, namespace, name)
        finally:
            self._reads.release()


class LiveReader:
    """A reader of single objects, without a resourceVersion: a quorum read (Kubernetes, API concepts)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Read the resourceVersion of a pod or claim; None if none has this name and UID.

        Raises:
            ApiError: if the object cannot be read.
        """
        content = self._read(*_PATHS[kind], namespace, name, str(kind))
        try:
            meta = None if content is None else _METADATA_DECODER.decode(content).metadata
            return None if meta is None or meta.uid != uid else parse_revision(meta.resource_version or "")
        except ValueError as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"{kind} {namespace}/{name} cannot be read: {error}") from None

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Read the JSON of an object of this group, version and plural; None if it does not exist.

        Raises:
            ApiError: if the object cannot be read.
        """
        group, version, plural = resource
        return self._read(f"/apis/{group}/{version}" if group else f"/api/{version}", plural, namespace, name, plural)

    def _read(self, base: str, plural: str, namespace: str, name: str, noun: str) -> bytes | None:
        path = f"{base}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}"
        response = self._transport.get(path, {})
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise ApiError(ApiErrorReason.REFUSED, f"{noun} {namespace}/{name} cannot be read: HTTP {response.status}")
        return response.body
