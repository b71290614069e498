"""Whether ledgers say what the pods hold.

A ledger says what it counted at a revision (`asOf`), and the pods are listed after it was read. A pod that has not
changed since then, or was created well before, or so long ago that any gate must have counted it, is to be in the tally
with what it holds now: what changes a pod without changing its cost is no reason to count anew. Any other may have been
counted with anything up to what it holds, or would hold had it not ended. One that was deleted since leaves no trace,
and one that was resized is not told from one that was not: so what differs is looked at again, until a gate has had the
time to count anew (`asking`).

A row is a promise in flight as long as its pod is not there, or has changed after `asOf`. Else a creation's should have
been settled when the ledger was counted, and a change's must be based on what its pod holds (docs/caps.md, rule 4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.capping import ActiveCap
from webhook.cli.cluster.ledgers import LedgerRow
from webhook.cli.cluster.seen import Seen
from webhook.cli.report.table import aligned
from webhook.cli.using.choice import Chosen
from webhook.cli.using.table import where
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.watch.columns import Place
from webhook.state.watch.shapes import Shape

_NOTHING = Amounts()
_SKEW_SECONDS = 10.0
"""What the clocks of gate and API server may be apart, beside the second to which both are told."""
_COUNTED_WITHIN_SECONDS = 60.0
"""A gate that runs counts a pod within a second or two; the rest is for many ledgers, and for clocks."""


class Drift(NamedTuple):
    """One number of a ledger that is wrong; `pod` is whose row it is in, empty for the tally."""

    cap: str
    namespace: str
    members: int
    pod: str
    name: str
    ledger: int
    pods: int
    why: str


@dataclass
class _Sums:
    """What pods hold that are as they were counted, and what those may have been counted with that are not."""

    settled: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    known: dict[str, Amounts] = field(default_factory=dict)


def comparable(seen: Seen, chosen: Chosen) -> LedgerRow | None:
    """The ledger, if there is one that has been counted."""
    row = seen.ledgers.rows.get(chosen.key)
    return row if row and row.ledger and row.ledger.pods_revision and not row.ledger.initializer else None


def verify(seen: Seen, chosen: Chosen) -> Iterator[Drift]:
    """What a ledger says otherwise than the pods; nothing where it is not `comparable`."""
    row = comparable(seen, chosen)
    if row is None or row.ledger is None:
        return
    ledger, sums = row.ledger, _sums(seen, chosen, row)
    names = sorted(ledger.resources & chosen.counted.resources)
    yield from _tally(chosen, ledger, sums, names)
    yield from _rows(chosen, ledger, sums.known, names)


def render(drifts: list[Drift]) -> list[str]:
    """The same for a person."""
    head = ("CAP", "NAMESPACE", "RESOURCE", "POD", "LEDGER", "PODS", "WHAT")
    return aligned(
        head,
        [
            (
                each.cap,
                where(each.namespace, each.members),
                each.name,
                each.pod or "(tally)",
                format_amount(each.name, each.ledger),
                format_amount(each.name, each.pods),
                each.why,
            )
            for each in drifts
        ],
    )


def data(each: Drift) -> dict[str, Any]:
    """The same for a program; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        "cap": each.cap,
        "namespace": each.namespace or None,
        "namespaces": each.members,
        "resource": each.name,
        "pod": each.pod or None,
        "ledger": each.ledger,
        "pods": each.pods,
        "why": each.why,
    }


def _tally(chosen: Chosen, ledger: Ledger, sums: _Sums, names: list[str]) -> Iterator[Drift]:
    for name in names:
        said, least, more = ledger.used.get(name, 0), sums.settled[name], sums.changed[name]
        if said < least:
            why = f"{format_amount(name, least - said)} less than pods hold that must have been counted"
            yield _drift(chosen, "", name, said, least, why)
        elif said > least + more:
            gone = f"{format_amount(name, said - least - more)} more than pods hold"
            why = f"{gone}; pods may have been deleted while no gate counts"
            yield _drift(chosen, "", name, said, least + more, why)


def _rows(chosen: Chosen, ledger: Ledger, known: Mapping[str, Amounts], names: list[str]) -> Iterator[Drift]:
    for uid, row in ledger.reservations.items():
        if uid not in known:
            continue
        holds, pod = known[uid], f"{row.namespace}/{row.name}"
        for name in names:
            held, base, to = holds.get(name, 0), row.counted.get(name, 0), row.requested.get(name, 0)
            if row.operation is Operation.CREATE and to > base:
                why = "a promise to create a pod that is counted already: it is charged twice"
                yield _drift(chosen, pod, name, to, held, why)
            elif row.operation is Operation.UPDATE and base != held:
                why = "a promise to change a pod that is counted with another amount than it holds"
                yield _drift(chosen, pod, name, base, held, why)


def _drift(chosen: Chosen, pod: str, name: str, ledger: int, pods: int, why: str) -> Drift:  # noqa: PLR0913, PLR0917 -- a Drift, field by field
    return Drift(chosen.counted.definition.name, chosen.key.namespace, len(chosen.members), pod, name, ledger, pods, why)


def _sums(seen: Seen, chosen: Chosen, row: LedgerRow) -> _Sums:
    sums, costs = _Sums(), dict[Shape, Amounts]()
    as_of, before = row.ledger.pods_revision if row.ledger else 0, _must_be_born_before(seen, row)
    for namespace in chosen.members:
        for place in seen.pods.within(namespace):
            if place.shape not in costs:
                costs[place.shape] = _cost(chosen.counted, place)
            cost = costs[place.shape]
            if place.revision <= as_of:
                sums.known[place.uid] = _NOTHING if place.has_ended else cost
                sums.settled.update(sums.known[place.uid])
            elif not place.has_ended and seen.views.born.get(place.uid, before) < before:
                sums.settled.update(cost)
            else:
                sums.changed.update(cost)
    return sums


def _must_be_born_before(seen: Seen, row: LedgerRow) -> float:
    """Pods created before that are in the tally, whatever of them has changed since."""
    counted = row.counted_at.timestamp() - _SKEW_SECONDS if row.counted_at else 0.0
    return max(counted, seen.now - _COUNTED_WITHIN_SECONDS if seen.now else 0.0)


def _cost(counted: ActiveCap, place: Place) -> Amounts:
    """What a pod of this shape holds, unless it has ended; one that cannot be read is counted with nothing."""
    try:
        return counted.compute_charge(place.shape.pod()).amounts
    except QuantityError:
        return _NOTHING
