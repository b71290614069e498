"""What a ledger is: tally, rows, and the sums that go along with them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from webhook.accounting.amounts import Amounts

_NOTHING = Amounts()


class Kind(StrEnum):
    """What a row promises: room for a pod to be created, or for one to change."""

    CREATE = "create"
    CHANGE = "change"


@dataclass(slots=True, unsafe_hash=True)  # never changed, like a ledger; to make a frozen one takes five times as long
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
        return self.to.find_shortfall(self.base)


@dataclass(slots=True, unsafe_hash=True)
class Ledger:
    """Tally plus reservations of one cap.

    `counts` are the names that the tally counts, `as_of` and `ns_as_of` the revisions of pods and namespaces at which
    it was counted, `members` a hash of the namespaces that the cap held then. `converging` is the nonce of who made a
    ledger whose past is not known (rule 7), and empty once it may promise. `rows` are by pod UID; `promised` is all
    that they add to the tally, `promised_in` the same by namespace: kept by difference, never added up at a write.
    """

    hard: Amounts
    tally: Amounts = field(default_factory=Amounts)
    rows: MappingProxyType[str, Row] = field(default_factory=lambda: MappingProxyType({}))
    promised: Amounts = field(default_factory=Amounts)
    promised_in: MappingProxyType[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    counts: frozenset[str] = frozenset()
    as_of: int = 0
    ns_as_of: int = 0
    members: str = ""
    converging: str = ""

    def charged(self) -> Amounts:
        """What counts against the cap: tally + Σ max(0, to - base)."""
        return self.tally + self.promised

    def with_row(self, uid: str, row: Row | None) -> "Ledger":
        """The ledger with this pod's row put in place of what it had, or without any."""
        before = self.rows.get(uid)
        if row is None and before is None:
            return self
        # dict() takes thirty times as long
        rows, within, promised = self.rows.copy(), self.promised_in.copy(), self.promised
        if before is not None:
            gone = before.promised()
            promised = _less(promised, gone)
            _put(within, before.namespace, _less(within.get(before.namespace, _NOTHING), gone))
        if row is None:
            del rows[uid]
        else:
            rows[uid] = row
            more = row.promised()
            promised = promised + more
            _put(within, row.namespace, within.get(row.namespace, _NOTHING) + more)
        return Ledger(  # `replace` takes ten times as long, and every promise comes here
            self.hard,
            self.tally,
            MappingProxyType(rows),
            promised,
            MappingProxyType(within),
            self.counts,
            self.as_of,
            self.ns_as_of,
            self.members,
            self.converging,
        )

    def with_rows(self, rows: Iterable[tuple[str, Row]]) -> "Ledger":
        """The ledger with these rows instead of its own, added up anew: for who looks at every row anyway."""
        kept = dict(rows)
        promised: dict[str, int] = {}
        within: dict[str, dict[str, int]] = {}
        for row in kept.values():
            here = within.setdefault(row.namespace, {})
            for name, amount in row.promised().items():
                promised[name] = promised.get(name, 0) + amount
                here[name] = here.get(name, 0) + amount
        sums = {namespace: Amounts(amounts) for namespace, amounts in within.items() if amounts}
        return replace(
            self, rows=MappingProxyType(kept), promised=Amounts(promised), promised_in=MappingProxyType(sums)
        )


def _less(amounts: Amounts, gone: Amounts) -> Amounts:
    """What is left of a sum; a name of which nothing is left is absent, so that sums do not grow for ever."""
    return amounts.find_shortfall(gone) if gone else amounts


def _put(within: dict[str, Amounts], namespace: str, amounts: Amounts) -> None:
    if amounts:
        within[namespace] = amounts
    else:
        within.pop(namespace, None)
