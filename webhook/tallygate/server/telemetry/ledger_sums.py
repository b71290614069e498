"""Sums of ledgers by cap, and the fullest of them: pure, for the metrics."""

import heapq
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger

AMOUNT_GETTERS: Final[Mapping[str, Callable[[Ledger], Amounts]]] = {
    "hard": lambda ledger: ledger.hard,
    "used": lambda ledger: ledger.used,
    "reserved": lambda ledger: ledger.reserved,
}


class LedgerState(StrEnum):
    """The state of one ledger: free amounts, a full resource, an exceeded one, not active, or that of a new cap."""

    AVAILABLE = "available"
    FULL = "full"
    EXCEEDED = "exceeded"
    INITIALIZING = "initializing"
    NEW = "new"


class LabelledLedger(NamedTuple):
    """A ledger with the label of its cap; `age` is the time since it was observed, in seconds."""

    cap: str
    namespace: str
    ledger: Ledger
    age: float
    group: str = ""


@dataclass(slots=True)
class CapSum:
    """The sum of all ledgers with one label."""

    amounts: dict[str, Counts[str]] = field(default_factory=lambda: {name: Counts() for name in AMOUNT_GETTERS})
    states: Counts[LedgerState] = field(default_factory=Counts)
    reservations: int = 0
    max_reservations: int = 0
    max_age: float = 0.0

    def add(self, labelled: LabelledLedger) -> None:
        """Add one ledger."""
        ledger = labelled.ledger
        for name, get_amounts in AMOUNT_GETTERS.items():
            self.amounts[name].update(get_amounts(ledger))
        self.states[_find_state(ledger)] += 1
        self.reservations += len(ledger.reservations)
        self.max_reservations = max(self.max_reservations, len(ledger.reservations))
        self.max_age = max(self.max_age, labelled.age)


class LedgerUtilization(NamedTuple):
    """The ratio charged / hard of one resource of a ledger: 1 is full."""

    ratio: float
    cap: str
    resource: str
    namespace: str
    group: str


def sum_by_cap(ledgers: Iterable[LabelledLedger]) -> dict[str, CapSum]:
    """Return one sum for each label of a cap."""
    sums: dict[str, CapSum] = defaultdict(CapSum)
    for labelled in ledgers:
        sums[labelled.cap].add(labelled)
    return dict(sums)


def find_fullest(ledgers: Iterable[LabelledLedger], max_each: int, max_total: int) -> list[LedgerUtilization]:
    """Return the fullest ledgers, at most `max_each` of each cap and resource and `max_total` in all; no empty one."""
    ranked: dict[tuple[str, str], list[LedgerUtilization]] = defaultdict(list)
    for labelled in ledgers:
        for utilization in _list_utilizations(labelled):
            ranked[utilization.cap, utilization.resource].append(utilization)
    return heapq.nlargest(max_total, (full for fulls in ranked.values() for full in heapq.nlargest(max_each, fulls)))


def _list_utilizations(labelled: LabelledLedger) -> Iterator[LedgerUtilization]:
    charged = labelled.ledger.compute_charged()
    for resource, hard in labelled.ledger.hard.items():
        if hard > 0 and charged.get(resource, 0) > 0:
            yield LedgerUtilization(
                charged[resource] / hard, labelled.cap, resource, labelled.namespace, labelled.group
            )


def _find_state(ledger: Ledger) -> LedgerState:
    if ledger.initializer:
        return LedgerState.NEW if ledger.counts_first else LedgerState.INITIALIZING
    charged = ledger.compute_charged()
    if charged.find_excess(ledger.hard):
        return LedgerState.EXCEEDED
    if any(hard > 0 and charged.get(name, 0) >= hard for name, hard in ledger.hard.items()):
        return LedgerState.FULL
    return LedgerState.AVAILABLE
