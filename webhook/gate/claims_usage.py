"""The used amounts of the claims for devices under one ledger, for a recount.

A claim that kube-scheduler made for a pod is not counted beside the pod.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.charge import ConsumerKind
from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.state.informers.claim_store import ClaimStore
from tallygate.webhook.state.informers.pod_store import PodStore
from tallygate.webhook.state.ledger.ledger import Ledger

_NO_AMOUNTS = Amounts()


class ClaimSources(NamedTuple):
    """The stores that watches update."""

    pods: PodStore
    claims: ClaimStore


class ClaimsUsage(NamedTuple):
    """The claims under a ledger: their used amounts, the part that may be counted twice, and the pods that have one."""

    revision: int
    used: Amounts = _NO_AMOUNTS
    unconfirmed: Amounts = _NO_AMOUNTS
    by_uid: Mapping[str, Amounts] = {}
    deleted: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()


def needs_claims(cap: ActiveCap, ledger: Ledger) -> bool:
    """Return whether a recount of the ledger reads claims.

    A ledger keeps reservations of claims after the last class of a name was removed.
    """
    return bool(cap.device_sources) or any(each.kind is ConsumerKind.CLAIM for each in ledger.reservations.values())


def count_claims(cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, sources: ClaimSources) -> ClaimsUsage:
    """Return the usage of claims as of one moment.

    Call it after the pods were counted: a pod that ends in between is then counted beside its claim, not neither.

    Raises:
        NotSyncedError: if there was no complete list yet.
    """
    pods, claims = sources
    usage, owned = claims.compute_usage_and_owned(cap, namespaces, ledger.reservations)
    confirmed = pods.find_owned_claims(cap, {uid: each.owner for uid, each in owned.items() if each.is_reserved})
    used, unconfirmed, by_uid = usage.used, _NO_AMOUNTS, dict(usage.used_by_consumer)
    for uid, each in owned.items():
        if uid in confirmed:
            # the classes of a resource may have changed since the scheduler made the claim
            rest = _NO_AMOUNTS if cap.is_selective else each.amounts.find_shortfall(confirmed[uid])
            used = used - each.amounts + rest
            if uid in by_uid:
                by_uid[uid] = rest
        elif each.is_young:
            unconfirmed += each.amounts
    revision, served = usage.choose_revision(ledger.claims_revision), {each.owner.pod_uid for each in owned.values()}
    return ClaimsUsage(revision, used, unconfirmed, by_uid, usage.deleted, frozenset(served))
