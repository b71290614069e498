"""The ledger of one cap: what is held, what is promised, and the transitions between.

The rule of this room: pure functions, a ledger in and a ledger or an outcome out. Who stores it, and how it is told
that nobody else wrote in between, is `ports.LedgerStore`'s matter; what is true of the cluster, and what a clock says,
is handed in. The rules are numbered as in docs/caps.md; tests/state/simulation shows what breaks without each of them.
"""

from webhook.state.ledger.ages import ReservationAge, ReservationAges
from webhook.state.ledger.drift import compute_drift
from webhook.state.ledger.expiring import LiveRead, expire
from webhook.state.ledger.governing import apply_limits
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ledger.opening import NotDue, activate
from webhook.state.ledger.recounting import StaleReason, StaleSnapshot, UsageSnapshot, recount
from webhook.state.ledger.reserving import (
    MAX_RESERVATIONS,
    Deferred,
    Exceeded,
    Prerequisite,
    ReservationRequest,
    Reserved,
    reserve,
)
from webhook.state.ledger.withdrawing import release

__all__ = [
    "MAX_RESERVATIONS",
    "Deferred",
    "Exceeded",
    "Ledger",
    "LiveRead",
    "NotDue",
    "Operation",
    "Prerequisite",
    "Reservation",
    "ReservationAge",
    "ReservationAges",
    "ReservationRequest",
    "Reserved",
    "StaleReason",
    "StaleSnapshot",
    "UsageSnapshot",
    "activate",
    "apply_limits",
    "compute_drift",
    "expire",
    "recount",
    "release",
    "reserve",
]
