"""Rule 2, reserve, with the guards of rules 5, 7 and 8: promise room to a pod, or say what must happen first.

Rule 3: an attempt takes back its own promise.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger, Operation, Reservation

MAX_RESERVATIONS = 3000
"""Promises in one ledger. It is rewritten at every write, and etcd takes no more than 1.5 MiB: 500 bytes for a row."""

_NAMESPACE_SHARE = 4
"""One namespace's promises may take a quarter of a shared cap, but always one pod."""

_NO_AMOUNTS = Amounts()


class Prerequisite(StrEnum):
    """What must happen before a ledger can promise."""

    ACTIVATE = "the ledger was made anew, and what is in flight is not known yet"
    CATCH_UP = "the ledger was counted with other and newer namespaces than this writer has seen"
    COUNT_RESOURCES = "the ledger does not count all that is asked for yet"
    COUNT_NAMESPACES = "the ledger was counted with other namespaces"
    COUNT_PODS = "the ledger was counted before its cap came into force here"
    SETTLE_NAMESPACE = "too much is promised to pods of this namespace that are not counted yet"
    SETTLE_RESERVATIONS = "too many pods are promised room and not counted yet"


@dataclass(slots=True)  # never changed; to make a frozen one takes five times as long
class ReservationRequest:
    """What one attempt wants promised.

    `old` and `new` are what the stored and the asked-for pod hold under this cap; `by` is the attempt's nonce;
    `hard` what the asking replica's own policy allows; `exceeds` whether this user may go over. `ns_as_of` and
    `members` say which namespaces the writer knows of, `shared` whether several of them draw on this ledger, so that
    the promises of one are bounded. `since` is the revision of pods at which, or later, the ledger must have been
    counted: what was stored before was not asked for under this cap (rule 8). `most_rows` bounds all promises; None
    where nothing settles them.
    """

    uid: str
    namespace: str
    name: str
    current: Amounts
    requested: Amounts
    attempt: str
    operation: Operation
    hard: Amounts
    may_exceed: bool = False
    namespaces_revision: int = 0
    namespaces_hash: str = ""
    is_shared: bool = False
    min_pods_revision: int = 0
    max_reservations: int | None = MAX_RESERVATIONS


class Reserved(msgspec.Struct, frozen=True):
    """The promise holds once `ledger` is stored; `free` when nothing need be written."""

    ledger: Ledger
    needs_no_write: bool


class Exceeded(msgspec.Struct, frozen=True):
    """There is no room: `excess` is what goes over, by name."""

    ledger: Ledger
    excess: Amounts


class Deferred(msgspec.Struct, frozen=True):
    """Nothing is decided until `first` has happened: a recount in the same write, or somebody's in a moment."""

    ledger: Ledger
    prerequisite: Prerequisite


def reserve(ledger: Ledger, request: ReservationRequest) -> Reserved | Exceeded | Deferred:
    """Promise room to a pod (rule 2).

    The guard looks only at names of which the pod asks for more than it has: a pod that asks for none of an overfull
    name passes, and so does a change that takes less, though a tally that is behind makes its charge look larger for a
    moment. It looks also where the charge does not grow by this attempt: it may have grown by a recount, when the
    attempt before took the pod for larger than it was.
    """
    reservation = ledger.reservations.get(request.uid)
    increase = request.requested.find_shortfall(request.current)
    if reservation is None and not increase:
        return Reserved(ledger, needs_no_write=True)
    if (prerequisite := _find_prerequisite(ledger, request)) is not None:
        return Deferred(ledger, prerequisite)
    after = ledger.with_reservation(request.uid, _create_reservation(reservation, request))
    if increase and not request.may_exceed:
        if excess := _compute_excess(after, increase, request.hard):
            return Exceeded(ledger, excess)
        if request.is_shared and _is_over_share(ledger, after, increase, request):
            return Deferred(ledger, Prerequisite.SETTLE_NAMESPACE)
    if (
        reservation is None
        and request.max_reservations is not None
        and len(ledger.reservations) >= request.max_reservations
    ):
        return Deferred(ledger, Prerequisite.SETTLE_RESERVATIONS)
    return Reserved(after, needs_no_write=False)


def _find_prerequisite(ledger: Ledger, request: ReservationRequest) -> Prerequisite | None:
    if ledger.initializer:
        return Prerequisite.ACTIVATE
    if request.namespaces_hash != ledger.namespaces_hash:
        return (
            Prerequisite.CATCH_UP
            if request.namespaces_revision < ledger.namespaces_revision
            else Prerequisite.COUNT_NAMESPACES
        )
    if not (ledger.resources >= request.requested.keys() and ledger.resources >= request.current.keys()):
        return Prerequisite.COUNT_RESOURCES
    if ledger.pods_revision < request.min_pods_revision:
        return Prerequisite.COUNT_PODS
    return None


def _create_reservation(reservation: Reservation | None, request: ReservationRequest) -> Reservation:
    if reservation is None:
        return Reservation(
            request.namespace,
            request.name,
            request.current,
            request.requested,
            request.attempt,
            single_attempt=True,
            operation=request.operation,
        )
    is_create = reservation.operation is Operation.CREATE and request.operation is Operation.CREATE
    return Reservation(
        reservation.namespace,
        reservation.name,
        counted=_min_by_name(reservation.counted, request.current),
        requested=reservation.requested.merge_max(request.requested),
        attempt=request.attempt,
        single_attempt=False,
        operation=Operation.CREATE if is_create else Operation.UPDATE,
    )


def _min_by_name(first: Amounts, second: Amounts) -> Amounts:
    """The smaller of both by name; absent is zero."""
    return Amounts({name: smaller for name, amount in first.items() if (smaller := min(amount, second.get(name, 0)))})


def _compute_excess(after: Ledger, names: Iterable[str], own_hard: Amounts) -> Amounts:
    """By how much the names of which more is asked go over the smaller of both bounds (rule 8)."""
    excess: dict[str, int] = {}
    for name in names:
        charged = after.used.get(name, 0) + after.reserved.get(name, 0)
        limit = min(own_hard.get(name, charged), after.hard.get(name, charged))
        if charged > limit:
            excess[name] = charged - limit
    return Amounts(excess)


def _is_over_share(ledger: Ledger, after: Ledger, names: Iterable[str], request: ReservationRequest) -> bool:
    """Whether this namespace would hold more than its share of a shared cap by the promises of several pods."""
    grown = [name for name in names if after.reserved.get(name, 0) > ledger.reserved.get(name, 0)]
    reserved = after.reserved_by_namespace.get(request.namespace, _NO_AMOUNTS)
    if reserved == after.reservations[request.uid].compute_reserved():
        return False
    limits = [(name, hard[name]) for hard in (after.hard, request.hard) for name in grown if name in hard]
    return any(reserved.get(name, 0) > limit // _NAMESPACE_SHARE for name, limit in limits)


def release(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    """The ledger without this attempt's row: only when the row is this attempt's, and nobody else's too.

    Another attempt of the same pod may have been allowed on the strength of a row that both wrote.
    """
    reservation = ledger.reservations.get(uid)
    if reservation is None or reservation.attempt != attempt or not reservation.single_attempt:
        return ledger
    return ledger.with_reservation(uid, None)
