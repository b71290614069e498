"""The list of CapLedgers: every one in a cluster, from any gate and version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.kube.resource_codec import Changed, Deleted, Replaced, ResourceCodec, WatchEvent, parse_revision
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, StoreUnavailableError

LEDGER_PAGE_SIZE = 50
"""Ledgers in a page of a list: a ledger may have 1.5 MiB, and a page at most 128 MiB (`tallygate.kube.client`)."""
LEDGERS_PATH = f"/apis/{cap_ledger.GROUP}/{cap_ledger.VERSION}/{cap_ledger.PLURAL}"
"""The path of the CapLedgers of all namespaces."""


class _Spec(msgspec.Struct, frozen=True):
    cap: str
    namespace: str = ""


class _Status(msgspec.Struct, frozen=True):
    summary: cap_ledger.CapLedgerSummary = cap_ledger.CapLedgerSummary()


class _PartialCapLedger(msgspec.Struct, frozen=True):
    """The fields that every version of a CapLedger has."""

    metadata: cap_ledger.CapLedgerMetadata
    spec: _Spec
    status: _Status = _Status()


class CapLedgerRecord(NamedTuple):
    """A CapLedger; `counted_at` is the time of its last recount from newer pods, `error` why it cannot be read."""

    uid: str
    namespace: str
    name: str
    revision: int
    key: LedgerKey
    ledger: Ledger | None
    counted_at: datetime | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class CapLedgerList:
    """The ledgers of a cluster by key; `problems` has the messages on unreadable and duplicate ones.

    `missing_reason` is why the list is empty, `unavailable_reason` why the ledgers cannot be listed or watched.
    """

    records: Mapping[LedgerKey, CapLedgerRecord] = field(default_factory=lambda: MappingProxyType({}))
    missing_reason: str = ""
    unavailable_reason: str = ""
    problems: tuple[str, ...] = ()


def create_ledger_record(item: msgspec.Raw) -> CapLedgerRecord:
    """Return the record of a stored CapLedger.

    Raises:
        ValueError: if the object is not a CapLedger.
    """
    partial = _PARTIAL_DECODER.decode(item)
    metadata, key = partial.metadata, LedgerKey(partial.spec.cap, partial.spec.namespace)
    identity = metadata.uid, metadata.namespace, metadata.name, parse_revision(metadata.resource_version), key
    try:
        decoded = cap_ledger.decode_ledger(bytes(item), key)
    except StoreUnavailableError as error:
        return CapLedgerRecord(*identity, None, None, str(error))
    if metadata.name != cap_ledger.get_object_name(key):
        message = f"capledger {metadata.namespace}/{metadata.name} has a name that no gate gives, and is skipped"
        return CapLedgerRecord(*identity, None, None, message)
    return CapLedgerRecord(*identity, decoded.ledger, partial.status.summary.counted_at)


def create_ledger_list(records: Iterable[CapLedgerRecord]) -> CapLedgerList:
    """Return the ledgers by key. Of several ledgers with one key, use the one that counted the newest pods."""
    records_by_key: dict[LedgerKey, CapLedgerRecord] = {}
    problems: list[str] = []
    for record in records:
        if record.ledger is None:
            problems.append(record.error)
            continue
        existing = records_by_key.get(record.key)
        if existing is not None:
            problems.append(_describe_duplicate(record, existing))
        if existing is None or existing.ledger is None or record.ledger.pods_revision > existing.ledger.pods_revision:
            records_by_key[record.key] = record
    missing_reason = (
        ""
        if records_by_key or problems
        else "there are no CapLedgers: the gate keeps its ledgers in memory, or no gate runs"
    )
    return CapLedgerList(MappingProxyType(records_by_key), missing_reason, problems=tuple(problems))


def _describe_duplicate(record: CapLedgerRecord, other: CapLedgerRecord) -> str:
    namespaces = " and ".join(sorted({record.namespace, other.namespace}))
    return (
        f"ledger {record.name} is there twice, in namespaces {namespaces}: that counted from the newest pods is shown"
    )


_PARTIAL_DECODER = msgspec.json.Decoder(_PartialCapLedger)

LEDGER_RECORD_CODEC = ResourceCodec(
    cap_ledger.PLURAL, LEDGERS_PATH, msgspec.Raw, create_ledger_record, is_optional=True
)


class CapLedgerStore:
    """The CapLedgers of one revision. The mapping is replaced, never changed, so that any thread may read it."""

    def __init__(self) -> None:
        self._records: dict[str, CapLedgerRecord] = {}
        self._listed: tuple[dict[str, CapLedgerRecord], CapLedgerList] | None = None
        self.revision: int | None = None

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, event: WatchEvent[CapLedgerRecord]) -> None:
        if isinstance(event, Replaced):
            self._records = {record.uid: record for record in event.items}
        elif isinstance(event, Changed):
            self._records = {**self._records, event.item.uid: event.item}
        elif isinstance(event, Deleted):
            self._records = {uid: record for uid, record in self._records.items() if uid != event.item.uid}
        self.revision = event.revision

    def list_ledgers(self) -> CapLedgerList:
        """Return the ledgers by key; the same list until there is a change."""
        records, listed = self._records, self._listed
        if listed is None or listed[0] is not records:
            listed = self._listed = records, create_ledger_list(records.values())
        return listed[1]
