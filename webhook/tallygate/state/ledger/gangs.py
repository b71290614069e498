"""Rule 11, gangs: the pods of a workload or PodGroup take over the amounts that are reserved for all of them together.

A pod that takes over an amount moves it from the reservation of the workload to its own: the cap is charged the same
before and after. An attempt that is released, and a pod that was never stored, give the amounts back. An attempt that
arrives after its pod is counted takes over nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation

_MARK_BYTES = 6
"""The length of the hash of a UID that tells the pods of one workload apart."""


class GangTerms(msgspec.Struct, frozen=True):
    """A PodGroup that reserves for its pods: its UID and name, and its API version and kind."""

    uid: str = ""
    name: str = ""
    kind: str = ""


NO_GANG = GangTerms()


def take_over(before: Ledger, after: Ledger, uid: str, owner_uids: Sequence[str]) -> Ledger:
    """Return `after` with the growth of the pod's reservation taken from the reservation of its workload.

    `before` is the ledger without this attempt. `owner_uids` are the UIDs of the controllers of the pod, the nearest
    first; the first one that has a reservation gives.
    """
    owner = find_gang(before, owner_uids)
    if owner is None:
        return after
    gang, earlier, own = before.reservations[owner], before.reservations.get(uid), after.reservations[uid]
    grown = own.compute_reserved().find_shortfall(earlier.compute_reserved() if earlier else NO_AMOUNTS)
    left = gang.compute_reserved()
    share = Amounts({name: smaller for name, amount in grown.items() if (smaller := min(amount, left.get(name, 0)))})
    if not share or _create_mark(uid) in gang.counted_pods:
        return after
    taken = replace(own, workload=owner, taken=own.taken + share)
    given = replace(gang, counted=gang.counted + share)
    return after.with_reservation(owner, given).with_reservation(uid, taken)


def find_gang(ledger: Ledger, owner_uids: Sequence[str]) -> str | None:
    """Return the UID of the first of these controllers that has the reservation of a workload."""
    return next((uid for uid in owner_uids if _is_gang(ledger.reservations.get(uid))), None)


def give_back(ledger: Ledger, reservation: Reservation) -> Ledger:
    """Return the ledger with the amounts of a pod that was never stored given back to its workload.

    If the reservation of the workload has ended, the ledger is unchanged. So it is if the reservation is for a change:
    then the pod was stored.
    """
    gang = ledger.reservations.get(reservation.workload) if reservation.workload else None
    if gang is None or gang.kind is not ConsumerKind.WORKLOAD or reservation.operation is not Operation.CREATE:
        return ledger
    counted = gang.counted.find_shortfall(reservation.taken)
    return ledger.with_reservation(reservation.workload, replace(gang, counted=counted))


def renew(gang: Reservation, attempts: Mapping[str, str]) -> Reservation:
    """Return the reservation of a workload of which pods are counted: the first count of each begins its age again.

    `attempts` are the nonces of the attempts of these pods, by their UIDs.
    """
    new = {mark: attempt for uid, attempt in attempts.items() if (mark := _create_mark(uid)) not in gang.counted_pods}
    if not new:
        return gang
    attempt = next(reversed(new.values()))
    return replace(gang, attempt=attempt, single_attempt=False, counted_pods=gang.counted_pods.union(new))


def is_complete(uid: str, reservation: Reservation, workloads_in_flight: Collection[str]) -> bool:
    """Return whether all pods of a workload have taken over their amounts, and none of them may give some back."""
    return not reservation.compute_reserved() and uid not in workloads_in_flight


def _create_mark(uid: str) -> str:
    return blake2b(uid.encode(errors="surrogatepass"), digest_size=_MARK_BYTES).hexdigest()


def _is_gang(reservation: Reservation | None) -> bool:
    return reservation is not None and reservation.kind is ConsumerKind.WORKLOAD
