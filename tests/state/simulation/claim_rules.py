"""The rules by which claims count: their amounts, and whose they are."""

from collections.abc import Mapping

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot
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


def count_rest(claim: int, pod: int) -> int:
    """Rule 10: return the units that a claim of a pod counts beside it, from the units of both."""
    return max(claim - pod, 0)


def is_unchanged(old: Claim, new: Claim) -> bool:
    """Rule 10: return whether an update keeps the allocation of a claim: then nothing is decided."""
    return bool(old.devices) and old.devices == new.devices


def find_covered(_ledger: Ledger, recounted: Ledger | StaleSnapshot, snapshot: UsageSnapshot, pod: str) -> Amounts:
    """Rule 10: return the part of a pod in a recounted ledger, which covers the scheduler's claim for it."""
    if isinstance(recounted, StaleSnapshot):
        return Amounts()
    return snapshot.find_covering_part(pod)
