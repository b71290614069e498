"""The Leases in the gate's own namespace as they are stored, and one whose annotations are a record of the replicas.

The record is in a Lease since the gate has the rights on Leases anyway. It is read by a list, for which the gate has
the right. Commands that have no cluster read Leases in snapshots: this module imports no client.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tallygate.kube.resource_codec import create_response_error
from tallygate.objects.coordination import Lease, LeaseList, LeaseSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.state.ports import StoreUnavailableError

if TYPE_CHECKING:
    from tallygate.kube.client import ApiClient

_TIMEOUT_SECONDS: Final = 5.0
_LIST_DECODER = msgspec.json.Decoder(LeaseList)
_ENCODER = msgspec.json.Encoder()


def create_leases_path(namespace: str) -> str:
    """Return the path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def decode_leases(body: bytes) -> Sequence[Lease]:
    """Return the Leases of a list.

    Raises:
        StoreUnavailableError: if it is not one.
    """
    try:
        return _LIST_DECODER.decode(body).items
    except (ValueError, RecursionError) as error:
        raise StoreUnavailableError(f"the API server's answer is not a list of leases: {error}") from None


def write_lease(client: "ApiClient", path: str, lease: Lease) -> bool:
    """Create a Lease without a version, or replace that of its version, and return whether it is stored.

    It is not if another client wrote or deleted it meanwhile; `path` is that of the Leases of its namespace.

    Raises:
        ApiError: if it is not stored for another reason, or if that is unknown.
    """
    body = _ENCODER.encode(lease)
    if lease.metadata.resource_version is None:
        response = client.create(path, body, timeout=_TIMEOUT_SECONDS)
    else:
        response = client.replace(f"{path}/{lease.metadata.name}", body, timeout=_TIMEOUT_SECONDS)
    if response.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
        return False
    if response.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        raise create_response_error(response)
    return True


class StoredAnnotations(NamedTuple):
    """The annotations of a Lease at a version, None if it does not exist."""

    annotations: Mapping[str, str] = {}
    version: str | None = None


class AnnotatedLease:
    """The Lease of one name, with the label of a component, for one thread."""

    def __init__(self, client: "ApiClient", namespace: str, name: str, component: str) -> None:
        self._client = client
        self._path = create_leases_path(namespace)
        self._name = name
        self._labels = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": component}

    def read(self) -> StoredAnnotations:
        """Return the annotations; none if the Lease does not exist.

        Raises:
            ApiError, StoreUnavailableError: if it cannot be read.
        """
        selector = {"fieldSelector": f"metadata.name={self._name}"}
        response = self._client.get(self._path, selector, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        for lease in decode_leases(response.body):
            return StoredAnnotations(lease.metadata.annotations or {}, lease.metadata.resource_version)
        return StoredAnnotations()

    def write(self, written: StoredAnnotations, now: float) -> bool:
        """Replace the annotations of this version; `now` is the time in seconds of the Unix epoch.

        Return False after a conflict: another replica wrote meanwhile, and the next write may succeed.

        Raises:
            ApiError: if they are not stored, or if that is unknown.
        """
        metadata = ObjectMeta(
            name=self._name,
            resource_version=written.version,
            labels=self._labels,
            annotations=dict(written.annotations),
        )
        renewed = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # a MicroTime
        return write_lease(self._client, self._path, Lease(metadata, LeaseSpec(renew_time=renewed)))

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()
