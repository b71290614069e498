"""The claims for devices that count under a cap, one by one, as `webhook.gate.usage_lister` sums them.

A claim that kube-scheduler made for a pod counts nothing beside its pod, but for devices that the pod does not count.
"""

from collections.abc import Collection
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.objects.devices import ResourceClaim
from tallygate.webhook.state.informers.claim_records import ClaimGroup
from tallygate.webhook.state.informers.claim_store import ClaimStore
from tallygate.webhook.state.informers.consumer_columns import StoredConsumer
from tallygate.webhook.state.informers.pod_store import PodStore

_NO_AMOUNTS = Amounts()


class CountedClaim(NamedTuple):
    """A claim with its charge under a cap, and the amounts that count beside its pod.

    `pod_uid` is the UID of the pod for which kube-scheduler seems to have made it, or empty; `pod` is that pod if it is
    stored, and `is_confirmed` if its status names the claim.
    """

    claim: StoredConsumer
    charge: Amounts
    counted: Amounts
    pod_uid: str = ""
    pod: StoredConsumer | None = None
    is_confirmed: bool = False

    def decode(self) -> ResourceClaim:
        """Return the fields of the claim that decide its charge."""
        group = self.claim.group
        assert isinstance(group, ClaimGroup)  # noqa: S101  # a store of claims has no others
        return group.to_claim()


def list_counted_claims(
    cap: ActiveCap, namespaces: Collection[str], pods: PodStore, claims: ClaimStore | None
) -> list[CountedClaim]:
    """Return the claims of these namespaces that have a charge under a cap.

    Raises:
        NotSyncedError: if pods or claims are not listed yet.
    """
    if claims is None or not cap.device_sources:
        return []
    charges = claims.compute_used_by_consumer(cap, namespaces)
    owned = claims.list_owned(cap, namespaces)
    confirmed = pods.find_owned_claims(cap, {uid: each.owner for uid, each in owned.items() if each.is_reserved})
    counted_claims: list[CountedClaim] = []
    for uid, charge in charges.items():
        claim = claims.find(uid)
        if claim is None:
            continue
        counted = charge
        if uid in confirmed:
            counted = _NO_AMOUNTS if cap.is_selective else charge.find_shortfall(confirmed[uid])
        pod_uid = owned[uid].owner.pod_uid if uid in owned else ""
        pod = pods.find(pod_uid) if pod_uid else None
        counted_claims.append(CountedClaim(claim, charge, counted, pod_uid, pod, uid in confirmed))
    return counted_claims
