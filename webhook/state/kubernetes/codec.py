"""Conversion of a ledger to a CapLedger and back, exactly."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from webhook.accounting.amounts import Amounts, format_amount
from webhook.state.kubernetes import naming, wire
from webhook.state.ledger.ledger import Ledger, Reservation
from webhook.state.ports import LedgerFullError, LedgerKey, StoreUnavailableError, VersionedLedger

MOST_BYTES = 1_500_000
"""Maximum size of an object. etcd accepts requests of 1.5 MiB (1,572,864 bytes), with the API server's additions."""

_DECODER = msgspec.json.Decoder(wire.CapLedger)
_ROWS = msgspec.json.Decoder(wire.Promise)
_ENCODER = msgspec.json.Encoder()


class Place(NamedTuple):
    """The content of a version: the state of one object, and the time at which its ledger was last recounted."""

    uid: str
    revision: str
    as_of: str
    counted_at: str

    def text(self) -> str:
        """Return the version as text."""
        return "/".join(self)

    @staticmethod
    def of(version: str) -> "Place":
        """Parse a version that `text` has written."""
        return Place(*version.split("/"))


class Written(NamedTuple):
    """An object to be stored; `as_of` and `counted_at` are for its next version."""

    body: bytes
    as_of: str
    counted_at: str


def encode(  # noqa: PLR0913  # what an object is made of
    key: LedgerKey, ledger: Ledger, namespace: str, place: Place | None, now: datetime, *, keeps: bool = True
) -> Written:
    """Return the object in `namespace`, to replace the one at `place` (None: no object), at this wall clock time.

    It has its finalizer if `keeps`: only a caller that is about to delete the object removes the finalizer.

    Raises:
        LedgerFullError: if it is too large for etcd.
    """
    as_of = f"{ledger.pods_revision}"
    counted_at = place.counted_at if place and place.as_of == as_of else _stamp(ledger, now)
    name, finalizers = naming.object_name(key), [naming.FINALIZER] if keeps else []
    metadata = wire.Metadata(name, namespace, finalizers=finalizers)
    if place:
        metadata = wire.Replacing(name, namespace, place.uid, place.revision, finalizers, managed_fields=[{}])
    object_ = wire.CapLedger(
        f"{naming.GROUP}/{naming.VERSION}",
        naming.KIND,
        metadata,
        wire.Spec(key.cap, key.namespace),
        _status(key, ledger, counted_at),
    )
    body = _ENCODER.encode(object_)
    if len(body) > MOST_BYTES:
        raise LedgerFullError(
            f"ledger {name} would have {len(body)} bytes and may have {MOST_BYTES}: it holds promises to "
            f"{len(ledger.reservations)} pods, of which some must be counted first"
        )
    return Written(body, as_of, counted_at)


def decode(body: bytes, key: LedgerKey) -> VersionedLedger:
    """Return the ledger and its version.

    Raises:
        StoreUnavailableError: if the object is not of this version of tallygate, or is another ledger's.
    """
    name = naming.object_name(key)
    try:
        object_ = _DECODER.decode(body)
        rows = _rows(key, object_.status.rows)
    except (ValueError, RecursionError) as error:
        raise StoreUnavailableError(
            f"capledger {name} cannot be read, and so is not touched ({error}): a newer tallygate may have written it"
        ) from None
    if LedgerKey(object_.spec.cap, object_.spec.namespace) != key:
        raise StoreUnavailableError(
            f"capledger {name} is not the ledger of cap {key.cap} and namespace {key.namespace!r}, but says that it is "
            f"of cap {object_.spec.cap} and namespace {object_.spec.namespace!r}: somebody has made it by hand"
        )
    metadata, status = object_.metadata, object_.status
    at = status.shown.counted_at
    place = Place(metadata.uid, metadata.resource_version, status.as_of, at.isoformat() if at else "")
    return VersionedLedger(_ledger(status).with_reservations(rows.items()), place.text())


def _status(key: LedgerKey, ledger: Ledger, counted_at: str) -> wire.Status:
    return wire.Status(
        hard=_digits(ledger.hard),
        tally=_digits(ledger.used),
        counts=sorted(ledger.resources),
        as_of=f"{ledger.pods_revision}",
        ns_as_of=f"{ledger.namespaces_revision}",
        members=ledger.namespaces_hash,
        converging=ledger.initializer,
        rows=_ENCODER.encode_lines([_promise(key, uid, row) for uid, row in ledger.reservations.items()]).decode(),
        shown=wire.Shown(
            hard=_told(ledger.hard),
            held=_told(ledger.used),
            promised=_told(ledger.reserved),
            rows=len(ledger.reservations),
            counted_at=datetime.fromisoformat(counted_at) if counted_at else None,
        ),
    )


def _promise(key: LedgerKey, uid: str, row: Reservation) -> wire.Promise:
    namespace = None if row.namespace == key.namespace else row.namespace
    return wire.Promise(
        uid,
        row.name,
        _digits(row.requested),
        row.attempt,
        namespace,
        _digits(row.counted),
        row.single_attempt,
        row.operation,
    )


def _ledger(status: wire.Status) -> Ledger:
    """Return the ledger without its reservations."""
    return Ledger(
        hard=_amounts(status.hard),
        used=_amounts(status.tally),
        resources=frozenset(status.counts),
        pods_revision=int(status.as_of),
        namespaces_revision=int(status.ns_as_of),
        namespaces_hash=status.members,
        initializer=status.converging,
    )


def _rows(key: LedgerKey, lines: str) -> dict[str, Reservation]:
    """Return the reservations by UID.

    Raises:
        ValueError: if a line is invalid, or a pod has two.
    """
    promises = _ROWS.decode_lines(lines)
    rows = {promise.uid: _row(key, promise) for promise in promises}
    if len(rows) != len(promises):
        raise ValueError("two rows of one pod")
    return rows


def _row(key: LedgerKey, promise: wire.Promise) -> Reservation:
    namespace = key.namespace if promise.namespace is None else promise.namespace
    base, to = _amounts(promise.base), _amounts(promise.to)
    return Reservation(namespace, promise.name, base, to, promise.by, promise.sole, promise.kind)


def _digits(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in amounts.items()}


def _amounts(digits: Mapping[str, str]) -> Amounts:
    return Amounts({name: int(amount) for name, amount in digits.items()})


def _told(amounts: Amounts) -> str:
    """Return the amounts as text for people: `8 nvidia.com/gpu, 64Gi memory`."""
    return ", ".join(f"{format_amount(name, amounts[name])} {name}" for name in sorted(amounts)) or "0"


def _stamp(ledger: Ledger, now: datetime) -> str:
    """Return the time to the second, as Kubernetes writes times; empty for a ledger that was never counted."""
    return now.replace(microsecond=0).isoformat() if ledger.pods_revision else ""
