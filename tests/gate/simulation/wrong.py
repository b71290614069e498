"""What stands in the place of a part of the product in a wrong variant: each a few lines that look reasonable."""
# ruff: noqa: SLF001  # what is replaced is private to the product's own classes

from typing import Any

from msgspec.structs import replace

from webhook.admission.cap_index import ActiveCap
from webhook.gate.charging import ReserveTransition
from webhook.gate.ledger_reconciler import LedgerReconciler, ReconcileResult
from webhook.gate.usage_lister import Membership, UsageLister
from webhook.state.batched_ledgers import BatchedLedgers, CachedLedger
from webhook.state.ledger.expire import ReservationAges
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey

_members = UsageLister.find_membership
_write = BatchedLedgers._write
_remember = LedgerReconciler._cache_result


def lands_by_uid(promise: ReserveTransition, ledger: Ledger) -> bool:
    return promise.pod.uid in ledger.reservations


def silence_is_success(
    ledgers: BatchedLedgers, key: LedgerKey, desk: CachedLedger, round_: Any, deadline: float
) -> bool:
    return _write(ledgers, key, desk, round_, deadline) or any(waiter.sent_result for waiter, _ in round_.results)


def wins_every_race(*args: Any) -> bool:
    return _write(*args) or True


def tells_before_it_writes(
    ledgers: BatchedLedgers, key: LedgerKey, desk: CachedLedger, round_: Any, deadline: float
) -> bool:
    for waiter, step in round_.results:
        desk.queue.complete(waiter, step)
    return _write(ledgers, key, desk, round_, deadline)


def withdraws_by_uid(ledger: Ledger, uid: str, _by: str) -> Ledger:
    return ledger.with_reservation(uid, None)


def marks_unwritten(
    keeper: LedgerReconciler, key: LedgerKey, ages: ReservationAges, kept: ReconcileResult, begun: float
) -> None:
    _remember(keeper, key, ages, ReconcileResult(kept.ledger, kept.expired, is_written=True), begun)


def follows_on(_sight: UsageLister, _cap: str) -> int:
    return 0


def has_no_past(_sight: UsageLister, _key: LedgerKey) -> bool:
    return True


def takes_promising(ledger: Ledger) -> bool:
    return not (ledger.used or ledger.initializer)


def counts_torn(_sight: UsageLister, _counted: ActiveCap, _key: LedgerKey) -> bool:
    return False


def never_left(sight: UsageLister, counted: ActiveCap, key: LedgerKey) -> Membership | None:
    members = _members(sight, counted, key)
    return members and replace(members, last_change=0)


def ignores_newer_pods(_promise: ReserveTransition, ledger: Ledger, membership: Membership) -> bool:
    return ledger.namespaces_revision < membership.last_change
