"""The record of what the leader has measured of capacities: an annotation of a Lease in the gate's own namespace.

A replica that starts takes it as its own (rule 8). It is a Lease since the gate has the rights on Leases anyway.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec.structs import replace

from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.resource_codec import create_response_error
from tallygate.objects.coordination import Lease, LeaseList, LeaseSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.state.ports import CapacityRecord, RecordedCapacity, RecordedStep, StoreUnavailableError

CAPACITIES_NAME: Final = "tallygate-capacities"
"""The name of the Lease."""
CAPACITIES_ANNOTATION: Final = "tallygate.dev/capacities"

_LABELS: Final = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "capacities"}
_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 200_000  # all annotations of an object have at most 256 KiB


class _WrittenCap(msgspec.Struct, frozen=True):
    selection: str
    steps: dict[str, list[tuple[int, float | None]]]


class _WrittenRecord(msgspec.Struct, frozen=True):
    at: float
    caps: dict[str, _WrittenCap]


_LIST_DECODER = msgspec.json.Decoder(LeaseList)
_RECORD_DECODER = msgspec.json.Decoder(_WrittenRecord)
_ENCODER = msgspec.json.Encoder()


class CapacityRecordStore:
    """The record in one namespace of a cluster, for one thread."""

    def __init__(self, client_config: ClientConfig, namespace: str) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS)
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def read(self) -> CapacityRecord | None:
        """Return the record by a list, for which the gate has the right; None without one, or if it is not as written.

        Raises:
            ApiError, StoreUnavailableError: if it cannot be read.
        """
        lease = self._find_lease()
        text = ((lease.metadata.annotations if lease else None) or {}).get(CAPACITIES_ANNOTATION)
        if text is None:
            return None
        try:
            return _decode(_RECORD_DECODER.decode(text))
        except (ValueError, RecursionError):
            return None

    def write(self, record: CapacityRecord) -> None:
        """Replace the record, whichever leader wrote it.

        Raises:
            ApiError, StoreUnavailableError: if it is not written, or if that is unknown; the next write may succeed.
        """
        before = self._find_lease()
        version = before.metadata.resource_version if before else None
        body = _ENCODER.encode(_encode(record, version))
        if before is None:
            response = self._client.create(self._path, body, timeout=_TIMEOUT_SECONDS)
        else:
            response = self._client.replace(f"{self._path}/{CAPACITIES_NAME}", body, timeout=_TIMEOUT_SECONDS)
        if response.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise create_response_error(response)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()

    def _find_lease(self) -> Lease | None:
        selector = {"fieldSelector": f"metadata.name={CAPACITIES_NAME}"}
        response = self._client.get(self._path, selector, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        try:
            return next(iter(_LIST_DECODER.decode(response.body).items), None)
        except (ValueError, RecursionError) as error:
            raise StoreUnavailableError(f"the API server's answer is no list of leases: {error}") from None


def _encode(record: CapacityRecord, version: str | None) -> Lease:
    written = _WrittenRecord(
        round(record.written_at, 3),
        {
            name: _WrittenCap(cap.selection, {resource: _list_pairs(steps) for resource, steps in cap.steps.items()})
            for name, cap in sorted(record.caps.items())
        },
    )
    text = _ENCODER.encode(written)
    if len(text) > _MAX_BYTES:  # what was largest and what is now; the steps between act earlier then
        text = _ENCODER.encode(replace(written, caps={name: _shorten(cap) for name, cap in written.caps.items()}))
    annotations = {CAPACITIES_ANNOTATION: text.decode()}
    metadata = ObjectMeta(name=CAPACITIES_NAME, resource_version=version, labels=dict(_LABELS), annotations=annotations)
    renewed = datetime.fromtimestamp(record.written_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # a MicroTime
    return Lease(metadata, LeaseSpec(renew_time=renewed))


def _list_pairs(steps: Sequence[RecordedStep]) -> list[tuple[int, float | None]]:
    return [(amount, None if ended_at is None else round(ended_at, 3)) for amount, ended_at in steps]


def _shorten(cap: _WrittenCap) -> _WrittenCap:
    return replace(cap, steps={name: [*steps[:1], *steps[1:][-1:]] for name, steps in cap.steps.items()})


def _decode(written: _WrittenRecord) -> CapacityRecord:
    caps = {
        name: RecordedCapacity(
            cap.selection,
            {resource: tuple(RecordedStep(*pair) for pair in pairs) for resource, pairs in cap.steps.items()},
        )
        for name, cap in written.caps.items()
    }
    return CapacityRecord(written.at, caps)
