"""The rules by which claims count: their amounts, and whose they are."""

from collections.abc import Mapping
from dataclasses import replace

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.state.ledger.ledger import Ledger
from tallygate.webhook.state.ledger.reserve import Deferred, Exceeded, ReservationRequest, Reserved, reserve
from tests.state.simulation.scenario import Cap
from tests.state.simulation.stored_objects import Claim, Pod


def count_claim(claim: Claim, cap: Cap) -> int:
    """Rule 10: return the units of a claim: its devices, or its largest alternative before it is allocated."""
    if claim.devices:
        return claim.devices
    return 0 if cap.by_allocation else max(claim.alternatives)


def belongs_to_pod(claim: Claim, pods: Mapping[str, Pod]) -> bool:
    """Rule 10: return whether a claim is the scheduler's for a pod: the statuses of both say so."""
    pod = pods.get(claim.reserved_for)
    return pod is not None and not pod.ended and pod.claim == claim.name and pod.namespace == claim.namespace


def is_decided(claim: Claim, cap: Cap) -> bool:
    """Rule 10: return whether an allocation of a claim needs a decision under a cap."""
    return cap.by_allocation or claim.is_flexible


def reserve_own(ledger: Ledger, request: ReservationRequest, used_by_pod: Amounts) -> Reserved | Exceeded | Deferred:
    """Rule 10: reserve the amounts of a scheduler's claim beyond the part of its pod in the used amounts.

    They are within the cap if the pod is counted; otherwise the guard decides.
    """
    is_covered = not request.requested.find_shortfall(used_by_pod)
    result = reserve(ledger, replace(request, may_exceed=request.may_exceed or is_covered))
    if not isinstance(result, Reserved) or result.needs_no_write:
        return result
    before, after = ledger.reservations.get(request.uid), result.ledger.reservations[request.uid]
    counted = used_by_pod if before is None else used_by_pod.find_shortfall(used_by_pod.find_shortfall(before.counted))
    reservation = replace(after, counted=counted)
    return Reserved(result.ledger.with_reservation(request.uid, reservation), needs_no_write=False)
