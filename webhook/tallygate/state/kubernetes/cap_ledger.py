"""Names of CapLedger objects: the group, the kind, and a unique object name for each ledger.

JSON form of a CapLedger; `crd` describes the same fields to the API server, and to people.

Amounts are strings of decimal digits: a JSON number survives the API server only as an int64, and a sum of bytes or of
thousandths of a CPU may be larger. All reservations are one string of lines (`reservation_lines`), and the amounts by
namespace are a JSON text each. So the API server neither parses them nor validates each at every write: a thousand
reservations cost it 4 ms of CPU time, where a map of objects costs 90 (kube-apiserver 1.36.3). An unknown field is
rejected, never dropped: a newer tallygate may have written it for a purpose.

Conversion of a ledger to a CapLedger and back, exactly.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, NamedTuple

import msgspec

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.claim_charge import ClassMappings
from tallygate.state.kubernetes.reservation_lines import Digits, decode_reservations, encode_reservations
from tallygate.state.ledger.guarantees import NO_GUARANTEES, AmountsByNamespace, Guarantees, create_guarantees
from tallygate.state.ledger.ledger import (
    NO_ACTIVATION,
    NO_REMAPPING,
    NO_SURGE,
    Activation,
    Ledger,
    Remapping,
    Reservation,
    Surge,
)
from tallygate.state.ports import LedgerFullError, LedgerKey, StoreUnavailableError, VersionedLedger

GROUP = "tallygate.dev"
VERSION = "v1alpha1"
KIND = "CapLedger"
PLURAL = "capledgers"

_MAX_CAP_LENGTH = 140  # characters; a cap's key has 74 at most, 138 with the value of a label
_MAX_NAMESPACE_LENGTH = 80  # a namespace has 63 at most
_HASH_DIGITS = 20


@lru_cache(maxsize=10_000)
def get_object_name(key: LedgerKey) -> str:
    """Return a DNS subdomain (RFC 1123, at most 253 characters): readable names, and 80 bits of a hash of the key.

    The object itself contains the key of its ledger; readers compare it.
    """
    whole = json.dumps([key.cap, key.namespace]).encode()
    digest = hashlib.sha256(whole).hexdigest()[:_HASH_DIGITS]
    cap, namespace = _sanitize(key.cap, _MAX_CAP_LENGTH), _sanitize(key.namespace, _MAX_NAMESPACE_LENGTH)
    return ".".join(part for part in (cap, namespace, digest) if part)


def _sanitize(text: str, max_length: int) -> str:
    """Return the text with only the characters that a label may contain."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:max_length].strip("-")


Revision = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,64}\Z")]


class CapLedgerSummary(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The columns of `kubectl get`; only written, never read."""

    hard: str = ""
    used: str = ""
    reserved: str = ""
    reservations: int | None = None
    counted_at: datetime | None = None


class CapLedgerStatus(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The content of the ledger.

    `summary` is required, though never read: the API server prunes the fields of an old form, and what remains of it
    would look like an empty ledger.
    """

    summary: CapLedgerSummary
    hard: dict[str, Digits] = {}
    used: dict[str, Digits] = {}
    unconfirmed: dict[str, Digits] = {}
    unpublished: dict[str, dict[str, Digits]] = {}
    resources: list[str] = []
    pods_resource_version: Revision = "0"
    claims_resource_version: Revision = "0"
    namespaces_resource_version: Revision = "0"
    namespaces_hash: str = ""
    initializing: str = ""
    reservations: str = ""
    surge: dict[str, Digits] = {}
    surge_since: datetime | None = None
    device_classes: dict[str, list[str]] = {}
    remapped: list[str] = []
    remapping_mark: str = ""
    is_new: bool = False
    active_from: datetime | None = None
    guarantees: str = ""
    used_by_namespace: str = ""


class CapLedgerSpec(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The key of the ledger."""

    cap: str
    namespace: str = ""


class CapLedgerMetadata(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The part of the object's metadata that the store uses."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ReplacementMetadata(CapLedgerMetadata, rename="camel", omit_defaults=True, frozen=True):
    """Metadata of an object that replaces another.

    An empty entry in `managed_fields` ends their tracking (Kubernetes' documentation of server-side apply). The
    tracking took the API server a sixth of each write, and only the gate owns any field.
    """

    managed_fields: list[dict[str, str]] = []


class CapLedger(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The whole object."""

    api_version: str
    kind: str
    metadata: CapLedgerMetadata
    spec: CapLedgerSpec
    status: CapLedgerStatus


MAX_OBJECT_BYTES = 1_500_000
"""Maximum size of an object. etcd accepts requests of 1.5 MiB (1,572,864 bytes), with the API server's additions."""

_DECODER = msgspec.json.Decoder(CapLedger)
_ENCODER = msgspec.json.Encoder()
_BY_NAMESPACE_DECODER = msgspec.json.Decoder(dict[str, dict[str, Digits]])


class StoredVersion(NamedTuple):
    """The content of a version: the state of one object, and the time at which its ledger was last recounted."""

    uid: str
    resource_version: str
    pods_revision: str
    counted_at: str

    def to_text(self) -> str:
        return "/".join(self)

    @staticmethod
    def parse(version: str) -> "StoredVersion":
        """Parse a version that `to_text` has written."""
        return StoredVersion(*version.split("/"))


class EncodedLedger(NamedTuple):
    """An object to be stored; `pods_revision` and `counted_at` are for its next version."""

    body: bytes
    pods_revision: str
    counted_at: str


def encode_ledger(
    key: LedgerKey, ledger: Ledger, namespace: str, stored_version: StoredVersion | None, now: datetime
) -> EncodedLedger:
    """Return the object in `namespace` that replaces `stored_version` (None: no object), at the wall clock time `now`.

    It has no finalizer: nothing would remove that when the gate is uninstalled, and a ledger that is deleted meanwhile
    is recounted.

    Raises:
        LedgerFullError: if it is too large for etcd.
    """
    pods_revision = f"{ledger.pods_revision}"
    counted_at = (
        stored_version.counted_at
        if stored_version and stored_version.pods_revision == pods_revision
        else _format_count_time(ledger, now)
    )
    name = get_object_name(key)
    metadata = CapLedgerMetadata(name, namespace)
    if stored_version:
        metadata = ReplacementMetadata(
            name, namespace, stored_version.uid, stored_version.resource_version, managed_fields=[{}]
        )
    cap_ledger_object = CapLedger(
        f"{GROUP}/{VERSION}",
        KIND,
        metadata,
        CapLedgerSpec(key.cap, key.namespace),
        _encode_status(key, ledger, counted_at),
    )
    body = _ENCODER.encode(cap_ledger_object)
    if len(body) > MAX_OBJECT_BYTES:
        raise LedgerFullError(
            f"ledger {name} would have {len(body)} bytes and may have {MAX_OBJECT_BYTES}: it has "
            f"{len(ledger.reservations)} reservations, of which some must be counted first"
        )
    return EncodedLedger(body, pods_revision, counted_at)


def decode_ledger(body: bytes, key: LedgerKey) -> VersionedLedger:
    """Return the ledger and its version.

    Raises:
        StoreUnavailableError: if another version of tallygate has written the object, or if it is another ledger.
    """
    name = get_object_name(key)
    try:
        cap_ledger_object = _DECODER.decode(body)
        reservations = _decode_reservations(cap_ledger_object)
        ledger = _decode_status(cap_ledger_object.status)
    except (ValueError, RecursionError) as error:
        raise StoreUnavailableError(
            f"capledger {name} cannot be read, and is left as it is: {error}. Another version of tallygate wrote it: "
            "run that version; or, if it is an old one, delete the object, and the gate recounts it"
        ) from None
    if LedgerKey(cap_ledger_object.spec.cap, cap_ledger_object.spec.namespace) != key:
        raise StoreUnavailableError(
            f"capledger {name} is not the ledger of cap {key.cap} and namespace {key.namespace!r}, but of cap "
            f"{cap_ledger_object.spec.cap} and namespace {cap_ledger_object.spec.namespace!r}: a user created it"
        )
    metadata, status = cap_ledger_object.metadata, cap_ledger_object.status
    counted_at = status.summary.counted_at
    stored_version = StoredVersion(
        metadata.uid,
        metadata.resource_version,
        status.pods_resource_version,
        counted_at.isoformat() if counted_at else "",
    )
    return VersionedLedger(ledger.with_reservations(reservations.items()), stored_version.to_text())


def _encode_status(key: LedgerKey, ledger: Ledger, counted_at: str) -> CapLedgerStatus:
    return CapLedgerStatus(
        hard=_encode_amounts(ledger.hard),
        used=_encode_amounts(ledger.used),
        unconfirmed=_encode_amounts(ledger.unconfirmed),
        unpublished={uid: _encode_amounts(amounts) for uid, amounts in ledger.unpublished.items()},
        resources=sorted(ledger.resources),
        pods_resource_version=f"{ledger.pods_revision}",
        claims_resource_version=f"{ledger.claims_revision}",
        namespaces_resource_version=f"{ledger.namespaces_revision}",
        namespaces_hash=ledger.namespaces_hash,
        initializing=ledger.initializer,
        reservations=encode_reservations(ledger.reservations, key.namespace),
        surge=_encode_amounts(ledger.surge.amounts),
        surge_since=None if ledger.surge.since is None else datetime.fromtimestamp(ledger.surge.since, UTC),
        device_classes=_encode_mappings(ledger.mappings),
        remapped=sorted(ledger.remapping.names),
        remapping_mark=ledger.remapping.mark,
        is_new=ledger.activation.is_new,
        active_from=datetime.fromtimestamp(ledger.activation.expected_at, UTC)
        if ledger.activation.expected_at
        else None,
        guarantees=_encode_by_namespace(ledger.guarantees.amounts),
        used_by_namespace=_encode_by_namespace(ledger.guarantees.used),
        summary=CapLedgerSummary(
            hard=_format_amounts(ledger.hard),
            used=_format_amounts(ledger.used),
            reserved=_format_amounts(ledger.reserved),
            reservations=len(ledger.reservations),
            counted_at=datetime.fromisoformat(counted_at) if counted_at else None,
        ),
    )


def _decode_status(status: CapLedgerStatus) -> Ledger:
    return Ledger(
        hard=_decode_amounts(status.hard),
        used=_decode_amounts(status.used),
        resources=frozenset(status.resources),
        pods_revision=int(status.pods_resource_version),
        namespaces_revision=int(status.namespaces_resource_version),
        namespaces_hash=status.namespaces_hash,
        initializer=status.initializing,
        claims_revision=int(status.claims_resource_version),
        unconfirmed=_decode_amounts(status.unconfirmed),
        unpublished=MappingProxyType({uid: _decode_amounts(amounts) for uid, amounts in status.unpublished.items()}),
        surge=_decode_surge(status),
        mappings=frozenset(
            (name, resource) for name, resources in status.device_classes.items() for resource in resources
        ),
        remapping=Remapping(frozenset(status.remapped), status.remapping_mark) if status.remapped else NO_REMAPPING,
        activation=_decode_activation(status),
        guarantees=_decode_guarantees(status.guarantees, status.used_by_namespace),
    )


def _encode_by_namespace(amounts: AmountsByNamespace) -> str:
    if not amounts:
        return ""
    return _ENCODER.encode({name: _encode_amounts(amounts[name]) for name in sorted(amounts)}).decode()


@lru_cache(maxsize=1024)
def _decode_guarantees(guarantees: str, used: str) -> Guarantees:
    """Return the guarantees of two texts, the same object for the same texts: few writes change them.

    Raises:
        ValueError: if a text is invalid.
    """
    if not used:
        return NO_GUARANTEES
    amounts, counted = (
        {name: _decode_amounts(each) for name, each in _BY_NAMESPACE_DECODER.decode(text or "{}").items()}
        for text in (guarantees, used)
    )
    return create_guarantees(amounts, counted)


def _encode_mappings(mappings: ClassMappings) -> dict[str, list[str]]:
    resources: dict[str, list[str]] = {}
    for name, resource in sorted(mappings):
        resources.setdefault(name, []).append(resource)
    return resources


def _decode_activation(status: CapLedgerStatus) -> Activation:
    if not status.is_new and status.active_from is None:
        return NO_ACTIVATION
    return Activation(status.is_new, 0 if status.active_from is None else int(status.active_from.timestamp()))


def _decode_surge(status: CapLedgerStatus) -> Surge:
    if not status.surge and status.surge_since is None:
        return NO_SURGE
    since = None if status.surge_since is None else int(status.surge_since.timestamp())
    return Surge(_decode_amounts(status.surge), since)


def _decode_reservations(cap_ledger_object: CapLedger) -> dict[str, Reservation]:
    """Return the reservations by UID.

    Raises:
        ValueError: if a line is invalid, or a consumer has two.
    """
    reservations: dict[str, Reservation] = {}
    for uid, reservation in decode_reservations(
        cap_ledger_object.status.reservations, cap_ledger_object.spec.namespace
    ):
        if uid in reservations:
            raise ValueError("two reservations of one consumer")
        reservations[uid] = reservation
    return reservations


def _encode_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in amounts.items()}


def _decode_amounts(digits: Mapping[str, str]) -> Amounts:
    return Amounts({name: int(amount) for name, amount in digits.items()})


def _format_amounts(amounts: Amounts) -> str:
    """Return the amounts as text for people: `8 nvidia.com/gpu, 64Gi memory`."""
    return ", ".join(f"{format_amount(name, amounts[name])} {name}" for name in sorted(amounts)) or "0"


def _format_count_time(ledger: Ledger, now: datetime) -> str:
    """Return the time to the second, as Kubernetes writes times; empty for a ledger that was never counted."""
    return now.replace(microsecond=0).isoformat() if ledger.pods_revision else ""
