"""JSON form of a CapLedger; `definition` describes the same fields to the API server, and to people.

Amounts are strings of decimal digits: a JSON number survives the API server only as an int64, and a sum of bytes or of
thousandths of a CPU may be larger. All reservations are one string, a JSON object on each line. So the API server
neither parses them nor validates each at every write: a thousand of them cost it 4 ms of CPU time, where a map of
objects costs 90 (kube-apiserver 1.36.3). An unknown field is rejected, never dropped: a newer tallygate may have
written it for a purpose.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from webhook.state.ledger.ledger import Operation

Digits = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,64}\Z")]
Revision = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,64}\Z")]


class ReservationRecord(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """A reservation; the namespace is omitted if it is the ledger's own."""

    uid: str
    name: str
    to: dict[str, Digits]
    by: str
    namespace: str | None = None
    base: dict[str, Digits] = {}
    sole: bool = True
    kind: Operation = Operation.CREATE


class CapLedgerSummary(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The columns of `kubectl get`; only written, never read."""

    hard: str = ""
    held: str = ""
    promised: str = ""
    rows: int | None = None
    counted_at: datetime | None = None


class CapLedgerStatus(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The content of the ledger."""

    hard: dict[str, Digits] = {}
    tally: dict[str, Digits] = {}
    counts: list[str] = []
    as_of: Revision = "0"
    ns_as_of: Revision = "0"
    members: str = ""
    converging: str = ""
    rows: str = ""
    shown: CapLedgerSummary = CapLedgerSummary()


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
    finalizers: list[str] = []


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
