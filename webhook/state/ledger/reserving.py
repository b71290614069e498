"""Rule 2, reserve, with the guards of rules 5, 7 and 8: promise room to a pod, or say what must happen first."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Kind, Ledger, Row

MOST_ROWS = 3000
"""Promises in one ledger. It is rewritten at every write, and etcd takes no more than 1.5 MiB: 500 bytes for a row."""

_SHARE = 4
"""One namespace's promises may take a quarter of a shared cap, but always one pod."""

_NOTHING = Amounts()


class First(StrEnum):
    """What must happen before a ledger can promise."""

    OPEN = "the ledger was made anew, and what is in flight is not known yet"
    CATCH_UP = "the ledger was counted with other and newer namespaces than this writer has seen"
    COUNT_NAMES = "the ledger does not count all that is asked for yet"
    COUNT_MEMBERS = "the ledger was counted with other namespaces"
    COUNT_PODS = "the ledger was counted before its cap came into force here"
    SETTLE_NAMESPACE = "too much is promised to pods of this namespace that are not counted yet"
    SETTLE_ROWS = "too many pods are promised room and not counted yet"


@dataclass(slots=True)  # never changed; to make a frozen one takes five times as long
class Reservation:
    """What one attempt wants promised.

    `old` and `new` are what the stored and the asked-for pod hold under this cap; `by` is the attempt's nonce;
    `hard` what the asking replica's own policy allows; `exceeds` whether this user may go over. `ns_as_of` and
    `members` say which namespaces the writer knows of, `shared` whether several of them draw on this ledger, so that
    the promises of one are bounded. `since` is the revision of pods at which, or later, the ledger must have been
    counted: what was stored before was not asked for under this cap (rule 8). `most_rows` bounds all promises; None
    where nothing settles them.
    """

    uid: str
    namespace: str
    name: str
    old: Amounts
    new: Amounts
    by: str
    kind: Kind
    hard: Amounts
    exceeds: bool = False
    ns_as_of: int = 0
    members: str = ""
    shared: bool = False
    since: int = 0
    most_rows: int | None = MOST_ROWS


class Granted(msgspec.Struct, frozen=True):
    """The promise holds once `ledger` is stored; `free` when nothing need be written."""

    ledger: Ledger
    free: bool


class Refused(msgspec.Struct, frozen=True):
    """There is no room: `excess` is what goes over, by name."""

    ledger: Ledger
    excess: Amounts


class Deferred(msgspec.Struct, frozen=True):
    """Nothing is decided until `first` has happened: a recount in the same write, or somebody's in a moment."""

    ledger: Ledger
    first: First


def reserve(ledger: Ledger, wanted: Reservation) -> Granted | Refused | Deferred:
    """Promise room to a pod (rule 2).

    The guard looks only at names of which the pod asks for more than it has: a pod that asks for none of an overfull
    name passes, and so does a change that takes less, though a tally that is behind makes its charge look larger for a
    moment. It looks also where the charge does not grow by this attempt: it may have grown by a recount, when the
    attempt before took the pod for larger than it was.
    """
    row = ledger.rows.get(wanted.uid)
    more = wanted.new.find_shortfall(wanted.old)
    if row is None and not more:
        return Granted(ledger, free=True)
    if (first := _first(ledger, wanted)) is not None:
        return Deferred(ledger, first)
    after = ledger.with_row(wanted.uid, _row(row, wanted))
    if more and not wanted.exceeds:
        if excess := _excess(after, more, wanted.hard):
            return Refused(ledger, excess)
        if wanted.shared and _is_unsettled(ledger, after, more, wanted):
            return Deferred(ledger, First.SETTLE_NAMESPACE)
    if row is None and wanted.most_rows is not None and len(ledger.rows) >= wanted.most_rows:
        return Deferred(ledger, First.SETTLE_ROWS)
    return Granted(after, free=False)


def _first(ledger: Ledger, wanted: Reservation) -> First | None:
    if ledger.converging:
        return First.OPEN
    if wanted.members != ledger.members:
        return First.CATCH_UP if wanted.ns_as_of < ledger.ns_as_of else First.COUNT_MEMBERS
    if not (ledger.counts >= wanted.new.keys() and ledger.counts >= wanted.old.keys()):
        return First.COUNT_NAMES
    if ledger.as_of < wanted.since:
        return First.COUNT_PODS
    return None


def _row(row: Row | None, wanted: Reservation) -> Row:
    if row is None:
        return Row(wanted.namespace, wanted.name, wanted.old, wanted.new, wanted.by, sole=True, kind=wanted.kind)
    both_create = row.kind is Kind.CREATE and wanted.kind is Kind.CREATE
    return Row(
        row.namespace,
        row.name,
        base=_least(row.base, wanted.old),
        to=row.to.merge_max(wanted.new),
        by=wanted.by,
        sole=False,
        kind=Kind.CREATE if both_create else Kind.CHANGE,
    )


def _least(one: Amounts, other: Amounts) -> Amounts:
    """The smaller of both by name; absent is zero."""
    return Amounts({name: least for name, amount in one.items() if (least := min(amount, other.get(name, 0)))})


def _excess(after: Ledger, more: Iterable[str], own: Amounts) -> Amounts:
    """By how much the names of which more is asked go over the smaller of both bounds (rule 8)."""
    excess: dict[str, int] = {}
    for name in more:
        charged = after.tally.get(name, 0) + after.promised.get(name, 0)
        bound = min(own.get(name, charged), after.hard.get(name, charged))
        if charged > bound:
            excess[name] = charged - bound
    return Amounts(excess)


def _is_unsettled(ledger: Ledger, after: Ledger, more: Iterable[str], wanted: Reservation) -> bool:
    """Whether this namespace would hold more than its share of a shared cap by the promises of several pods."""
    grown = [name for name in more if after.promised.get(name, 0) > ledger.promised.get(name, 0)]
    promised = after.promised_in.get(wanted.namespace, _NOTHING)
    if promised == after.rows[wanted.uid].promised():
        return False
    bounds = [(name, hard[name]) for hard in (after.hard, wanted.hard) for name in grown if name in hard]
    return any(promised.get(name, 0) > bound // _SHARE for name, bound in bounds)
