"""What stands in the place of a part of the product in a wrong variant: each a few lines that look reasonable."""
# ruff: noqa: SLF001  # what is replaced is private to the product's own classes

from typing import Any

from webhook.admission.capping import Counted
from webhook.gate.keeping import Keeper, Kept
from webhook.gate.promising import Promise
from webhook.gate.sight import Sight
from webhook.state.batching import BatchedLedgers
from webhook.state.batching.desk import Desk
from webhook.state.ledger import Ages, Ledger
from webhook.state.ports import LedgerKey

_write = BatchedLedgers._write
_remember = Keeper._remember


def lands_by_uid(promise: Promise, ledger: Ledger) -> bool:
    return promise.who.uid in ledger.rows


def silence_is_success(ledgers: BatchedLedgers, key: LedgerKey, desk: Desk, round_: Any, deadline: float) -> bool:
    return _write(ledgers, key, desk, round_, deadline) or any(waiter.sent for waiter, _ in round_.steps)


def wins_every_race(*args: Any) -> bool:
    return _write(*args) or True


def tells_before_it_writes(ledgers: BatchedLedgers, key: LedgerKey, desk: Desk, round_: Any, deadline: float) -> bool:
    for waiter, step in round_.steps:
        desk.line.decide(waiter, step)
    return _write(ledgers, key, desk, round_, deadline)


def withdraws_by_uid(ledger: Ledger, uid: str, _by: str) -> Ledger:
    return ledger.with_row(uid, None)


def marks_unwritten(keeper: Keeper, key: LedgerKey, ages: Ages, kept: Kept, begun: float) -> None:
    _remember(keeper, key, ages, Kept(kept.ledger, kept.expired, wrote=True), begun)


def follows_on(_sight: Sight, _cap: str) -> int:
    return 0


def has_no_past(_sight: Sight, _key: LedgerKey) -> bool:
    return True


def takes_promising(ledger: Ledger) -> bool:
    return not (ledger.tally or ledger.converging)


def counts_torn(_sight: Sight, _counted: Counted, _key: LedgerKey) -> bool:
    return False
