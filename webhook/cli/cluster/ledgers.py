"""CapLedgers as they are listed: whichever there are, whoever wrote them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from webhook.state.kubernetes import codec, naming, wire
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, StoreUnavailableError
from webhook.state.watch.wire import Reading, revision_of

PAGE = 50
"""Ledgers in a page of a list: one may have 1.5 MiB, and a page no more than 128 (state.watch.pool)."""
PATH = f"/apis/{naming.GROUP}/{naming.VERSION}/{naming.PLURAL}"
"""Where the API server lists them, of all namespaces."""


class _Spec(msgspec.Struct, frozen=True):
    cap: str
    namespace: str = ""


class _Status(msgspec.Struct, frozen=True):
    shown: wire.Shown = wire.Shown()


class _Bare(msgspec.Struct, frozen=True):
    """As much of a CapLedger as every version of it has."""

    metadata: wire.Metadata
    spec: _Spec
    status: _Status = _Status()


class LedgerRow(NamedTuple):
    """One CapLedger; `counted_at` is when it was counted from newer pods last, `fault` why it cannot be read."""

    uid: str
    namespace: str
    name: str
    revision: int
    key: LedgerKey
    ledger: Ledger | None
    counted_at: datetime | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The ledgers of a cluster by key; `faults` says what is wrong with some.

    `absent` says why there are none, `closed` why there cannot be any to be seen.
    """

    rows: Mapping[LedgerKey, LedgerRow] = field(default_factory=lambda: MappingProxyType({}))
    absent: str = ""
    closed: str = ""
    faults: tuple[str, ...] = ()


def digest(item: msgspec.Raw) -> LedgerRow:
    """The row of a stored CapLedger.

    Raises:
        ValueError: it is none.
    """
    bare = _BARE.decode(item)
    metadata, key = bare.metadata, LedgerKey(bare.spec.cap, bare.spec.namespace)
    who = metadata.uid, metadata.namespace, metadata.name, revision_of(metadata.resource_version), key
    try:
        found = codec.decode(bytes(item), key)
    except StoreUnavailableError as error:
        return LedgerRow(*who, None, None, str(error))
    if metadata.name != naming.object_name(key):
        wrong = f"capledger {metadata.namespace}/{metadata.name} has a name that no gate gives, and is passed over"
        return LedgerRow(*who, None, None, wrong)
    return LedgerRow(*who, found.ledger, bare.status.shown.counted_at)


def gathered(rows: Iterable[LedgerRow]) -> Ledgers:
    """The ledgers by key. Where several gates have left one for the same key, that counted from the newest pods."""
    found: dict[LedgerKey, LedgerRow] = {}
    faults: list[str] = []
    for row in rows:
        if row.ledger is None:
            faults.append(row.fault)
            continue
        other = found.get(row.key)
        if other is not None:
            faults.append(_twice(row, other))
        if other is None or other.ledger is None or row.ledger.pods_revision > other.ledger.pods_revision:
            found[row.key] = row
    absent = (
        "" if found or faults else "there are no CapLedgers: the gate keeps its ledgers in memory, or there is none"
    )
    return Ledgers(MappingProxyType(found), absent, faults=tuple(faults))


def _twice(row: LedgerRow, other: LedgerRow) -> str:
    where = " and ".join(sorted({row.namespace, other.namespace}))
    return f"ledger {row.name} is there twice, in namespaces {where}: that counted from the newest pods is shown"


_BARE = msgspec.json.Decoder(_Bare)

LEDGERS = Reading(naming.PLURAL, PATH, msgspec.Raw, digest)
