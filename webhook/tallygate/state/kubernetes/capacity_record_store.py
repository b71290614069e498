"""The record of what the leader has measured of capacities: an annotation of a Lease in the gate's own namespace.

A replica that starts takes it as its own (rule 8).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.state.kubernetes.stored_leases import AnnotatedLease, StoredAnnotations
from tallygate.state.ports import CapacityRecord, RecordedCapacity, RecordedStep, StoreUnavailableError

CAPACITIES_NAME: Final = "tallygate-capacities"
"""The name of the Lease."""
CAPACITIES_ANNOTATION: Final = "tallygate.dev/capacities"

_MAX_BYTES: Final = 200_000  # all annotations of an object have at most 256 KiB


class _WrittenCap(msgspec.Struct, frozen=True):
    selection: str
    steps: dict[str, list[tuple[int, float | None]]]


class _WrittenRecord(msgspec.Struct, frozen=True):
    at: float
    caps: dict[str, _WrittenCap]


_RECORD_DECODER = msgspec.json.Decoder(_WrittenRecord)
_ENCODER = msgspec.json.Encoder()


class CapacityRecordStore:
    """The record in one namespace of a cluster, for one thread."""

    def __init__(self, client_config: ClientConfig, namespace: str) -> None:
        self._lease = AnnotatedLease(ApiClient(client_config, OBJECT_LIMITS), namespace, CAPACITIES_NAME, "capacities")

    def read(self) -> CapacityRecord | None:
        """Return the record; None without one, or if it is not as written.

        Raises:
            ApiError, StoreUnavailableError: if it cannot be read.
        """
        text = self._lease.read().annotations.get(CAPACITIES_ANNOTATION)
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
        version = self._lease.read().version
        written = StoredAnnotations({CAPACITIES_ANNOTATION: _encode(record)}, version)
        if not self._lease.write(written, record.written_at):
            raise StoreUnavailableError(f"the Lease {CAPACITIES_NAME} was changed meanwhile")

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._lease.close()


def _encode(record: CapacityRecord) -> str:
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
    return text.decode()


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
