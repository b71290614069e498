"""The records of the annotations that a gate admitted: one Lease for each namespace, in the gate's own namespace.

The Lease has the same annotations as the namespace. A tenant who may update namespaces cannot write it, so that an
annotation without its record was set while no gate was asked. Its owner is the namespace, by whose UID a record is no
record of a later namespace of the same name, and with which the garbage collector deletes it. The gate has the rights
on Leases anyway.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tallygate.kube.resource_codec import create_response_error
from tallygate.objects.coordination import Lease, LeaseSpec
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX, LimitRecords, select_texts
from tallygate.state.kubernetes.stored_leases import create_leases_path, decode_leases, write_lease

if TYPE_CHECKING:
    from tallygate.kube.client import ApiClient

_LABELS: Final = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "limits"}
_SELECTOR: Final = ",".join(f"{name}={value}" for name, value in _LABELS.items())
_NAME_PREFIX: Final = "tallygate-limits."
_TIMEOUT_SECONDS: Final = 5.0


_LEASE_DECODER = msgspec.json.Decoder(Lease)
_ENCODER = msgspec.json.Encoder()


class LimitRecord(NamedTuple):
    """The admitted texts of one namespace, by cap, and the user of the last change.

    `version` identifies a stored state; it is empty for a record that does not exist.
    """

    namespace_uid: str
    namespace: str
    texts: Mapping[str, str]
    user: str = ""
    version: str = ""


class LimitRecordStore:
    """The records in one namespace of a cluster."""

    def __init__(self, client: "ApiClient", namespace: str) -> None:
        self._client = client
        self._path = create_leases_path(namespace)

    def list_records(self) -> tuple[LimitRecord, ...]:
        """Return all records.

        Raises:
            ApiError, StoreUnavailableError: if they cannot be read.
        """
        response = self._client.get(self._path, {"labelSelector": _SELECTOR}, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        leases = decode_leases(response.body)
        return tuple(_decode(lease) for lease in leases if lease.metadata.owner_references)

    def write(self, record: LimitRecord) -> bool:
        """Store a record if it is still at its version, and return whether it is stored; one without texts is deleted.

        Raises:
            ApiError: if it is not stored, or if that is unknown.
        """
        if record.texts:
            return write_lease(self._client, self._path, _encode(record))
        path = f"{self._path}/{_NAME_PREFIX}{record.namespace}"
        body = _ENCODER.encode({"preconditions": {"resourceVersion": record.version}} if record.version else {})
        response = self._client.delete(path, body, timeout=_TIMEOUT_SECONDS)
        if response.status == HTTPStatus.CONFLICT:
            return False
        if response.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            raise create_response_error(response)
        return True

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()


def read_limit_records(client: "ApiClient", namespace: str) -> LimitRecords:
    """Return the admitted texts by the UID of the namespace and the cap, from the records in the gate's namespace.

    Raises:
        ApiError, StoreUnavailableError: if they cannot be read.
    """
    records = LimitRecordStore(client, namespace).list_records()
    return {record.namespace_uid: record.texts for record in records}


def encode_record(record: LimitRecord) -> bytes:
    """Return the Lease of a record in JSON."""
    return _ENCODER.encode(_encode(record))


def decode_record(content: bytes | msgspec.Raw) -> LimitRecord | None:
    """Return the record in a Lease, None if the Lease is for something else.

    Raises:
        ValueError: if the content is not a Lease.
    """
    lease = _LEASE_DECODER.decode(content)
    is_record = _LABELS.items() <= (lease.metadata.labels or {}).items() and lease.metadata.owner_references
    return _decode(lease) if is_record else None


def _decode(lease: Lease) -> LimitRecord:
    meta = lease.metadata
    (owner, *_) = meta.owner_references or (OwnerReference(),)
    texts, user = select_texts(meta.annotations), lease.spec.holder_identity or ""
    return LimitRecord(owner.uid or "", owner.name or "", texts, user, meta.resource_version or "")


def _encode(record: LimitRecord) -> Lease:
    metadata = ObjectMeta(
        name=f"{_NAME_PREFIX}{record.namespace}",
        resource_version=record.version or None,
        labels=_LABELS,
        annotations={f"{ANNOTATION_PREFIX}{cap}": text for cap, text in sorted(record.texts.items())},
        owner_references=[OwnerReference("Namespace", record.namespace, record.namespace_uid, api_version="v1")],
    )
    return Lease(metadata, LeaseSpec(record.user or None))
