"""The used amounts of the claims for devices under one ledger, for a recount.

A claim that kube-scheduler made for a pod is not counted in addition to the pod, except under names that count devices
by attributes or capacities: a pod has nothing under these.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap
from tallygate.gate.allocated_usage import AllocatedUsage, count_allocated
from tallygate.gate.counted_claims import ClaimSources, compute_remainders
from tallygate.state.informers.claim_store import ClaimStore, OwnedClaim
from tallygate.state.informers.consumer_store import ConsumerUsage
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger

_MAX_READS = 3
_NOTHING_ALLOCATED = AllocatedUsage()


class ClaimsUsage(NamedTuple):
    """The claims under a ledger: their used amounts, and the part of these that may be counted twice.

    `served` are the pods for which kube-scheduler seems to have made one of these claims.
    """

    revision: int
    used: Amounts = NO_AMOUNTS
    unconfirmed: Amounts = NO_AMOUNTS
    by_uid: Mapping[str, Amounts] = {}
    deleted: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    allocated: AllocatedUsage = _NOTHING_ALLOCATED


def needs_claims(cap: ActiveCap, ledger: Ledger) -> bool:
    """Return whether a recount of the ledger reads claims.

    A ledger keeps reservations of claims after the last class of a name was removed.
    """
    return cap.counts_claims or any(
        reservation.kind is ConsumerKind.CLAIM for reservation in ledger.reservations.values()
    )


def count_claims(
    cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, sources: ClaimSources
) -> ClaimsUsage | None:
    """Return the usage of claims at one revision; None if slices are too old, or claims change all the time.

    Raises:
        NotSyncedError: if there was no complete list yet.
    """
    pods, claims, devices = sources
    for _ in range(_MAX_READS):
        usage, owned = claims.compute_usage_and_owned(cap, namespaces, ledger.reservations)
        allocated = _NOTHING_ALLOCATED
        if cap.device_meters:
            allocated = _count_allocated(cap, namespaces, ledger, claims, devices)
            if allocated.is_behind:
                return None
        if not cap.device_meters or claims.choose_revision(0) == usage.choose_revision(0):
            return _sum_claims(cap, ledger, pods, (usage, owned), allocated)
    return None


def _count_allocated(
    cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, claims: ClaimStore, devices: DeviceStore | None
) -> AllocatedUsage:
    if devices is None:
        return AllocatedUsage(uncounted=frozenset(cap.device_meters))
    return count_allocated(cap, claims, devices, namespaces, ledger)


def _sum_claims(
    cap: ActiveCap,
    ledger: Ledger,
    pods: PodStore,
    claims: tuple[ConsumerUsage, Mapping[str, OwnedClaim]],
    allocated: AllocatedUsage,
) -> ClaimsUsage:
    """Return the sum of claims without those of the scheduler whose pods count, and of allocated devices."""
    usage, owned = claims
    remainders = compute_remainders(cap, owned, pods)
    used, unconfirmed, by_uid = usage.used, NO_AMOUNTS, dict(usage.used_by_consumer)
    for uid, each in owned.items():
        if uid in remainders:
            used = used - each.amounts + remainders[uid]
            if uid in by_uid:
                by_uid[uid] = remainders[uid]
        elif each.is_young:
            unconfirmed += each.amounts
    if allocated.by_uid:
        by_uid = {uid: amounts + allocated.by_uid.get(uid, NO_AMOUNTS) for uid, amounts in by_uid.items()}
    return ClaimsUsage(
        usage.choose_revision(ledger.claims_revision),
        used + allocated.used,
        unconfirmed,
        by_uid,
        usage.deleted,
        frozenset(each.owner.pod_uid for each in owned.values()),
        allocated,
    )
