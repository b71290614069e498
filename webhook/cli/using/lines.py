"""One line for each ledger and each name that it counts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from webhook.accounting.amounts import Amounts, format_amount
from webhook.admission.capping import CapIndex
from webhook.cli.cluster.ledgers import LedgerRow
from webhook.cli.cluster.seen import Seen
from webhook.cli.using.choice import Choice, Chosen
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.view import Count

_NOTHING = Amounts()
_CONVERGING = "converging: promises nothing yet"


class Over(StrEnum):
    """Which bound is passed."""

    NEITHER = ""
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class Line:
    """How it stands with one name of a ledger, in the amounts of accounting.

    `namespace` is empty for a shared ledger, of which `members` says how many namespaces draw on it; None when that is
    not known. `hard` and `soft` are None where there is no such bound, `promised` where there is no ledger to say.
    `terminating` is how much of what is held goes with pods that are being deleted, `since` when the ledger was counted
    from newer pods last.
    """

    cap: str
    namespace: str
    members: int | None
    name: str
    hard: int | None
    soft: int | None
    held: int
    promised: int | None
    terminating: int = 0
    since: datetime | None = None
    converging: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def charged(self) -> int:
        """What counts against the cap."""
        return self.held + (self.promised or 0)

    @property
    def free(self) -> int | None:
        """What there is room for; None where nothing is bounded."""
        return None if self.hard is None else max(0, self.hard - self.charged)

    @property
    def over(self) -> Over:
        """Which bound is passed."""
        if self.hard is not None and self.charged > self.hard:
            return Over.HARD
        return Over.SOFT if self.soft is not None and self.charged > self.soft else Over.NEITHER


@dataclass(frozen=True, slots=True)
class Usage:
    """All lines, and what is to be said once."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def usage(seen: Seen, caps: CapIndex, choice: Choice) -> Usage:
    """How it stands with the caps that are meant; without any caps, with the ledgers that are there.

    Raises:
        Misuse: there is no such cap.
    """
    notes = list(seen.ledgers.faults)
    if not caps:
        return Usage(tuple(_unexplained(seen, choice)), tuple(notes))
    if seen.ledgers.absent:
        notes.append(f"held is counted from pods, and promised is not known: {seen.ledgers.absent}")
    strangers = sorted({cap_name(key) for key in seen.strangers(caps)})
    if strangers:
        notes.append(
            f"the ledgers of caps that these policies do not have, or not so, are not shown: {_few(strangers)}"
        )
    gone = [] if choice.cap or choice.namespace else seen.bereft(caps)
    if gone:
        notes.append(f"the ledgers of namespaces that are gone are not shown: {_few(gone)}")
    lines = tuple(line for chosen in choice.of(seen, caps) for line in _lines(seen, chosen))
    return Usage(lines, tuple(notes))


def cap_name(key: LedgerKey) -> str:
    """The cap's name: its key has a hash behind it."""
    return key.cap.rpartition("-")[0] or key.cap


def _lines(seen: Seen, chosen: Chosen) -> Iterator[Line]:
    counted, key, members = chosen
    row = seen.ledgers.rows.get(key)
    ledger = None if row is None else row.ledger
    going = seen.terminating(members)
    count = seen.pods.count(counted, members, going)
    leaving = sum((count.there[uid] for uid in going if uid in count.there), _NOTHING)
    counts = frozenset() if ledger is None or ledger.initializer else ledger.resources
    tally = _NOTHING if ledger is None else ledger.used
    bounds = counted.hard if ledger is None else _smaller(counted.hard, ledger.hard)
    for name in sorted(counted.resources):
        yield Line(
            cap=counted.definition.name,
            namespace=key.namespace,
            members=len(members),
            name=name,
            hard=bounds.get(name),
            soft=counted.soft.get(name),
            held=(tally if name in counts else count.tally).get(name, 0),
            promised=None if ledger is None else ledger.reserved.get(name, 0),
            terminating=leaving.get(name, 0),
            since=row.counted_at if row is not None and name in counts else None,
            converging=bool(ledger and ledger.initializer),
            remarks=tuple(_remarks(seen, chosen, ledger, count, name)),
        )


def _smaller(own: Amounts, written: Amounts) -> Amounts:
    """What is kept to: the smaller of both bounds, where both are (docs/caps.md, rule 8)."""
    return Amounts({name: min(most, written.get(name, most)) for name, most in own.items()})


def _remarks(seen: Seen, chosen: Chosen, ledger: Ledger | None, count: Count, name: str) -> Iterator[str]:
    """What is odd about a line."""
    if ledger is None:
        if not seen.ledgers.absent:
            yield "no ledger yet: counted from pods"
    else:
        if ledger.initializer:
            yield f"{_CONVERGING}, and is counted from pods"
        elif name not in ledger.resources:
            yield "the ledger does not count it yet: counted from pods"
        written, own = ledger.hard.get(name), chosen.counted.hard.get(name)
        if written is not None and own is not None and written != own:
            yield f"the policies say {format_amount(name, own)}, the ledger {format_amount(name, written)}"
    if count.unreadable:
        yield f"counted with nothing for a quantity that is none: {_few(_names(seen, count.unreadable))}"


def _unexplained(seen: Seen, choice: Choice) -> Iterator[Line]:
    """What the ledgers themselves say, where nobody says what the caps are."""
    for key, row in sorted(seen.ledgers.rows.items(), key=lambda each: (each[0].cap, each[0].namespace)):
        if row.ledger is not None and choice.takes(cap_name(key), key, frozenset()):
            yield from _written(key, row, row.ledger)


def _written(key: LedgerKey, row: LedgerRow, ledger: Ledger) -> Iterator[Line]:
    for name in sorted(ledger.hard.keys() | ledger.resources):
        yield Line(
            cap=cap_name(key),
            namespace=key.namespace,
            members=None,
            name=name,
            hard=ledger.hard.get(name),
            soft=None,
            held=ledger.used.get(name, 0),
            promised=ledger.reserved.get(name, 0),
            since=row.counted_at,
            converging=bool(ledger.initializer),
            remarks=(_CONVERGING,) if ledger.initializer else (),
        )


def _names(seen: Seen, uids: Iterable[str]) -> list[str]:
    return sorted(f"{place.namespace}/{place.name}" for place in map(seen.pods.find, uids) if place is not None)


def _few(names: list[str]) -> str:
    """The first ten of them, and how many more there are."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""  # noqa: PLR2004 -- ten fit into a line
    return ", ".join(names[:10]) + more
