"""The ledgers of each cap added up, and the few that are fullest. Pure."""

import heapq
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger

PARTS: Final[Mapping[str, Callable[[Ledger], Amounts]]] = {
    "hard": lambda ledger: ledger.hard,
    "held": lambda ledger: ledger.used,
    "promised": lambda ledger: ledger.reserved,
}


class State(StrEnum):
    """How one ledger is: it has room, none of something, less than none, or promises nothing yet."""

    ROOM = "room"
    FULL = "full"
    OVER = "over"
    CONVERGING = "converging"


class Told(NamedTuple):
    """A ledger, under the name that its cap goes by; `age` is in seconds since it was looked at."""

    cap: str
    namespace: str
    ledger: Ledger
    age: float


@dataclass(slots=True)
class Sum:
    """All ledgers that go by one name."""

    amounts: dict[str, Counts[str]] = field(default_factory=lambda: {name: Counts() for name in PARTS})
    states: Counts[State] = field(default_factory=Counts)
    rows: int = 0
    most_rows: int = 0
    age: float = 0.0

    def add(self, told: Told) -> None:
        """Take one in."""
        ledger = told.ledger
        for name, part in PARTS.items():
            self.amounts[name].update(part(ledger))
        self.states[_state(ledger)] += 1
        self.rows += len(ledger.reservations)
        self.most_rows = max(self.most_rows, len(ledger.reservations))
        self.age = max(self.age, told.age)


class Full(NamedTuple):
    """How much of what it allows a ledger has charged, of one resource: 1 is full."""

    ratio: float
    cap: str
    resource: str
    namespace: str


def added(ledgers: Iterable[Told]) -> dict[str, Sum]:
    """One sum for each name of a cap."""
    sums: dict[str, Sum] = defaultdict(Sum)
    for told in ledgers:
        sums[told.cap].add(told)
    return dict(sums)


def fullest(ledgers: Iterable[Told], each: int, most: int) -> list[Full]:
    """The fullest ledgers of every cap and resource, so many of each and so many in all; none that is empty."""
    ranked: dict[tuple[str, str], list[Full]] = defaultdict(list)
    for told in ledgers:
        for full in _ratios(told):
            ranked[full.cap, full.resource].append(full)
    return heapq.nlargest(most, (full for fulls in ranked.values() for full in heapq.nlargest(each, fulls)))


def _ratios(told: Told) -> Iterator[Full]:
    charged = told.ledger.compute_charged()
    for resource, hard in told.ledger.hard.items():
        if hard > 0 and charged.get(resource, 0) > 0:
            yield Full(charged[resource] / hard, told.cap, resource, told.namespace)


def _state(ledger: Ledger) -> State:
    if ledger.initializer:
        return State.CONVERGING
    charged = ledger.compute_charged()
    if charged.find_excess(ledger.hard):
        return State.OVER
    if any(hard > 0 and charged.get(name, 0) >= hard for name, hard in ledger.hard.items()):
        return State.FULL
    return State.ROOM
