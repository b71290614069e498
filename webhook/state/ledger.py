"""The ledger of one cap: what is held, what is promised, and the transitions between.

Pure: each transition takes a ledger and gives a new one; who stores it, and how it is told that nobody else wrote in
between, is `ports.LedgerStore`'s matter. The rules are numbered as in docs/caps.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from webhook.accounting.amounts import Amounts


class Kind(StrEnum):
    """What a row promises: room for a pod to be created, or for one to change."""

    CREATE = "create"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Row:
    """A reservation: one pod's promise that the tally does not count yet.

    The pod is counted with `base` and promised `to`; `by` is the nonce of the attempt that wrote it last, `sole`
    whether no other attempt did.
    """

    namespace: str
    name: str
    base: Amounts
    to: Amounts
    by: str
    sole: bool
    kind: Kind

    def promised(self) -> Amounts:
        """What it adds to the tally: max(0, to - base)."""
        return self.to.short_of(self.base)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Tally plus reservations of one cap. `rows` are by pod UID; `promised` is all that they add to the tally."""

    hard: Amounts
    tally: Amounts = field(default_factory=Amounts)
    rows: Mapping[str, Row] = field(default_factory=lambda: MappingProxyType({}))
    promised: Amounts = field(default_factory=Amounts)

    def charged(self) -> Amounts:
        """What counts against the cap: tally + Σ max(0, to - base)."""
        return self.tally + self.promised

    def with_row(self, uid: str, row: Row | None) -> "Ledger":
        """The ledger with this pod's row put in place of what it had, or without any.

        The sum goes along by the difference, so that a ledger of thousands of rows is not added up at every write.
        """
        before = self.rows.get(uid)
        rows = {**self.rows}
        promised = self.promised
        if before is not None:
            promised = promised - before.promised()
        if row is None:
            rows.pop(uid, None)
        else:
            rows[uid] = row
            promised = promised + row.promised()
        return replace(self, rows=MappingProxyType(rows), promised=promised)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one attempt wants promised.

    `old` and `new` are what the stored and the asked-for pod hold under this cap; `by` is the attempt's nonce;
    `hard` what the asking replica's own policy allows; `exceeds` whether this user may go over.
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


@dataclass(frozen=True, slots=True)
class Granted:
    """The promise holds once `ledger` is stored; `free` when nothing need be written."""

    ledger: Ledger
    free: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no room: `excess` is what goes over, by name."""

    ledger: Ledger
    excess: Amounts


def reserve(ledger: Ledger, wanted: Reservation) -> Granted | Refused:
    """Promise room to a pod (rule 2).

    The guard looks only at names whose charge grows, so that a pod that asks for none of an overfull name passes.
    """
    row = ledger.rows.get(wanted.uid)
    if row is None and not wanted.new.short_of(wanted.old):
        return Granted(ledger, free=True)
    after = ledger.with_row(wanted.uid, _row(row, wanted))
    charged = after.charged()
    grows = charged.short_of(ledger.charged())
    over = charged.over(wanted.hard).max_with(charged.over(ledger.hard))
    excess = Amounts({name: by for name, by in over.items() if name in grows})
    if excess and not wanted.exceeds:
        return Refused(ledger, excess)
    return Granted(after, free=False)


def _row(row: Row | None, wanted: Reservation) -> Row:
    if row is None:
        return Row(wanted.namespace, wanted.name, wanted.old, wanted.new, wanted.by, sole=True, kind=wanted.kind)
    both_create = row.kind is Kind.CREATE and wanted.kind is Kind.CREATE
    return Row(
        row.namespace,
        row.name,
        base=_least(row.base, wanted.old),
        to=row.to.max_with(wanted.new),
        by=wanted.by,
        sole=False,
        kind=Kind.CREATE if both_create else Kind.CHANGE,
    )


def _least(one: Amounts, other: Amounts) -> Amounts:
    """The smaller of both by name; absent is zero."""
    return Amounts({name: min(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}})


def withdraw(ledger: Ledger, uid: str, by: str) -> Ledger:
    """Take back an attempt's own promise (rule 3): only when the row is this attempt's, and nobody else's too."""
    row = ledger.rows.get(uid)
    if row is None or row.by != by or not row.sole:
        return ledger
    return ledger.with_row(uid, None)
