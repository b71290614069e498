"""The transitions under test: the product's own, unless a variant puts something else in their place."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from webhook.accounting.amounts import Amounts
from webhook.state.ledger import (
    Ages,
    Behind,
    Closed,
    Deferred,
    Granted,
    Ledger,
    Reading,
    Refused,
    Reservation,
    View,
    expire,
    govern,
    recount,
    reopen,
    reserve,
    withdraw,
)

Pods = Mapping[str, Any]

Counted = dict[str, Amounts]
"""What a ledger's tally says of each pod, by UID: kept beside it, so that invariants can look at single pods."""


def landed(ledger: Ledger, uid: str, by: str) -> bool:
    """Rule 1: a write whose answer was lost succeeded only if the row's `by` is this attempt's."""
    row = ledger.rows.get(uid)
    return row is not None and row.by == by


def made(hard: Amounts, by: str) -> Ledger:
    """Rule 7: a ledger whose past is not known."""
    return Ledger(hard, converging=by)


def tallied(_before: Counted, _ledger: Ledger, view: View) -> Counted:
    """After a recount the tally is the view's."""
    return {uid: amounts for uid, amounts in view.counted.items() if amounts}


def gone(deleted: AbstractSet[str], _seen: AbstractSet[str]) -> AbstractSet[str]:
    """Rule 4: what a view calls gone is what its watch has shown deleted, and nothing else that it sees."""
    return deleted


def listed(_before: Pods, now: Pods) -> Pods:
    """Rule 4: a list is one state of one moment."""
    return now


@dataclass(frozen=True)
class Rules:
    """Every rule by its place."""

    reserve: Callable[[Ledger, Reservation], Granted | Refused | Deferred] = reserve
    withdraw: Callable[[Ledger, str, str], Ledger] = withdraw
    recount: Callable[[Ledger, View], Ledger | Behind] = recount
    expire: Callable[[Ledger, Ages, Reading], Ledger] = expire
    reopen: Callable[[Ledger, Ages, View, float], Ledger | Behind | Closed] = reopen
    govern: Callable[[Ledger, Amounts, frozenset[str]], Ledger] = govern
    ages: Callable[[float], Ages] = Ages
    landed: Callable[[Ledger, str, str], bool] = landed
    made: Callable[[Amounts, str], Ledger] = made
    tallied: Callable[[Counted, Ledger, View], Counted] = tallied
    gone: Callable[[AbstractSet[str], AbstractSet[str]], AbstractSet[str]] = gone
    listed: Callable[[Pods, Pods], Pods] = listed
    compares: bool = True
    """Whether the store compares before it swaps; a variant shows what follows when it does not."""


PRODUCT = Rules()
