"""The ledger of one cap: what is held, what is promised, and the transitions between.

The rule of this room: pure functions, a ledger in and a ledger or an outcome out. Who stores it, and how it is told
that nobody else wrote in between, is `ports.LedgerStore`'s matter; what is true of the cluster, and what a clock says,
is handed in. The rules are numbered as in docs/caps.md; tests/state/simulation shows what breaks without each of them.
"""

from webhook.state.ledger.ages import Ages, Known
from webhook.state.ledger.drift import drift
from webhook.state.ledger.expiring import Reading, expire
from webhook.state.ledger.governing import govern
from webhook.state.ledger.ledger import Kind, Ledger, Row
from webhook.state.ledger.opening import Closed, reopen
from webhook.state.ledger.recounting import Behind, Lacks, View, recount
from webhook.state.ledger.reserving import (
    MOST_ROWS,
    Deferred,
    First,
    Granted,
    Refused,
    Reservation,
    reserve,
)
from webhook.state.ledger.withdrawing import withdraw

__all__ = [
    "MOST_ROWS",
    "Ages",
    "Behind",
    "Closed",
    "Deferred",
    "First",
    "Granted",
    "Kind",
    "Known",
    "Lacks",
    "Ledger",
    "Reading",
    "Refused",
    "Reservation",
    "Row",
    "View",
    "drift",
    "expire",
    "govern",
    "recount",
    "reopen",
    "reserve",
    "withdraw",
]
