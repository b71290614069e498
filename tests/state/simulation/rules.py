"""The transitions under test: the product's own, unless a variant puts something else in their place."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.expire import LiveRead, NotDue, ReservationAges, activate, expire
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recount import StaleSnapshot, UsageSnapshot, apply_limits, recount
from webhook.state.ledger.reserve import Deferred, Exceeded, ReservationRequest, Reserved, release, reserve

Pods = Mapping[str, Any]

Counted = dict[str, Amounts]
"""What a ledger's tally says of each pod, by UID: kept beside it, so that invariants can look at single pods."""


def landed(ledger: Ledger, uid: str, by: str) -> bool:
    """Rule 1: a write whose answer was lost succeeded only if the row's `by` is this attempt's."""
    row = ledger.reservations.get(uid)
    return row is not None and row.attempt == by


def made(hard: Amounts, by: str) -> Ledger:
    """Rule 7: a ledger whose past is not known."""
    return Ledger(hard, initializer=by)


def tallied(_before: Counted, _ledger: Ledger, view: UsageSnapshot) -> Counted:
    """After a recount the tally is the view's."""
    return {uid: amounts for uid, amounts in view.used_by_pod.items() if amounts}


def gone(deleted: AbstractSet[str], _seen: AbstractSet[str]) -> AbstractSet[str]:
    """Rule 4: what a view calls gone is what its watch has shown deleted, and nothing else that it sees."""
    return deleted


def listed(_before: Pods, now: Pods) -> Pods:
    """Rule 4: a list is one state of one moment."""
    return now


@dataclass(frozen=True)
class Rules:
    """Every rule by its place."""

    reserve: Callable[[Ledger, ReservationRequest], Reserved | Exceeded | Deferred] = reserve
    withdraw: Callable[[Ledger, str, str], Ledger] = release
    recount: Callable[[Ledger, UsageSnapshot], Ledger | StaleSnapshot] = recount
    expire: Callable[[Ledger, ReservationAges, LiveRead], Ledger] = expire
    reopen: Callable[[Ledger, ReservationAges, UsageSnapshot, float], Ledger | StaleSnapshot | NotDue] = activate
    govern: Callable[[Ledger, Amounts, frozenset[str]], Ledger] = apply_limits
    ages: Callable[[float], ReservationAges] = ReservationAges
    landed: Callable[[Ledger, str, str], bool] = landed
    made: Callable[[Amounts, str], Ledger] = made
    tallied: Callable[[Counted, Ledger, UsageSnapshot], Counted] = tallied
    gone: Callable[[AbstractSet[str], AbstractSet[str]], AbstractSet[str]] = gone
    listed: Callable[[Pods, Pods], Pods] = listed
    compares: bool = True
    """Whether the store compares before it swaps; a variant shows what follows when it does not."""


PRODUCT = Rules()
