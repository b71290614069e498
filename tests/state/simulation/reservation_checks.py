"""Checks of a reservation before it is written, by plain arithmetic."""

from collections import Counter
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import Prerequisite, ReservationRequest
from tests.schedules import ViolationError
from tests.state.simulation.ground_truth import GroundTruth, Key, Write
from tests.state.simulation.replica import Replica
from tests.state.simulation.scenario import X

_SHARE = 4
_NUMBER_PREREQUISITES = {Prerequisite.SETTLE_RESERVATIONS, Prerequisite.SETTLE_NAMESPACE_RESERVATIONS}


class OwnLimits(NamedTuple):
    """The limits of a replica at the begin of an attempt, and its surge; None if the pod's controller does not roll."""

    hard: Amounts
    surge: Amounts | None


def check_limits(key: Key, before: Ledger, after: Ledger, request: ReservationRequest, limits: OwnLimits) -> bool:
    """Check that a reservation exceeds no limit, and return whether it needs a surge."""
    needs_surge = False
    for name, amount in request.requested.items():
        charged, will_charge = before.compute_charged().get(name, 0), after.compute_charged().get(name, 0)
        if amount <= request.current.get(name, 0):
            continue
        surge, own, stored = limits.surge, limits.hard[name], before.hard.get(name, will_charge)
        exceeds, grows = will_charge > min(own, stored), will_charge > charged
        needs_surge |= exceeds and surge is not None
        if grows and name not in before.resources:
            raise ViolationError(f"uncounted: {key} would reserve {name} and does not count its use")
        if not (grows and exceeds):
            continue
        if surge is None:
            rule = "shared" if before.surge.amounts else "over"
            raise ViolationError(f"{rule}: {key} would charge {will_charge} {name}, above the smaller limit")
        if will_charge > min(own + surge.get(name, 0), stored + before.surge.amounts.get(name, 0)):
            raise ViolationError(f"over: {key} would charge {will_charge} {name}, above the smaller limit and surge")
    return needs_surge


def check_rejection(key: Key, ledger: Ledger, request: ReservationRequest, limits: OwnLimits) -> None:
    """Check that a pod which surges has no room, unless another attempt for it has a reservation."""
    surge, charged = limits.surge, ledger.compute_charged()
    if surge is None or request.uid in ledger.reservations:
        return
    for name, amount in request.requested.items():
        will_charge = charged.get(name, 0) + amount
        most = limits.hard[name] + surge.get(name, 0)
        stored_most = ledger.hard.get(name, will_charge) + ledger.surge.amounts.get(name, 0)
        if will_charge > min(most, stored_most):
            return
    raise ViolationError(f"refused: {key} rejects {request.uid}, which may surge and has room")


def check_deferral(key: Key, ledger: Ledger, request: ReservationRequest, prerequisite: Prerequisite) -> None:
    """Check that no consumer waits because of the number of reservations before its namespace has a quarter of them."""
    if prerequisite not in _NUMBER_PREREQUISITES or key.namespace != -1:
        return
    namespaces = Counter(each.namespace for each in ledger.reservations.values())
    if namespaces[request.namespace] * _SHARE < (request.max_reservations or 0) and len(namespaces) <= _SHARE:
        raise ViolationError(f"crowded: {key} has reservations of {dict(namespaces)}, and {request.uid} must wait")


def check_old_pods(write: Write, truth: GroundTruth, replica: Replica) -> None:
    """Check that a reservation counts all that was accepted before the cap was active in its replica."""
    key = write.key
    units = {uid: truth.size_under(key, pod) for uid, pod in truth.pods.items()}
    units |= {uid: truth.count_under(key, claim) for uid, claim in truth.claims.items() if not claim.made_for}
    for uid, size in units.items():
        used = write.used_by_pod.get(uid, Amounts()).get(X, 0)
        stored = truth.pods.get(uid) or truth.claims[uid]
        if size > used and stored.revision <= replica.loaded.get(key.cap, 0):
            reservation = write.ledger.reservations.get(uid)
            if reservation is None and not truth.scenario.relabels:
                raise ViolationError(f"unseen: {key} reserves what {uid} used before the cap was active")
